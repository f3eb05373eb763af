"""Who trains the fleets: this process, worker processes, or streams of a GPU."""
