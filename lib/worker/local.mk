# lib/worker
