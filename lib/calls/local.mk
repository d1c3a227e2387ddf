# lib/calls
