# lib/store
