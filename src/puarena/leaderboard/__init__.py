"""Results for others and of others: publishing them, checking and packing a submission, the site, rerunning a row."""
