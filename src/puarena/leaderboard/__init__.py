"""Publishing results, submissions, the site, and computing a published row again."""
