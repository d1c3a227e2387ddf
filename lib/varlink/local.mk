# lib/varlink
