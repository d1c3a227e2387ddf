# lib/perfdata
