# lib/etm
