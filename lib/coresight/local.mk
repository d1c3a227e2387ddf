# lib/coresight
