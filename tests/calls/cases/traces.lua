-- SPDX-License-Identifier: MIT
-- LuaJIT's traces: side exits, calls of C functions, and callbacks from C. The last loop is long enough
-- that a small ring begins in it.
local function numbers(n)
  local x, c = 1, { 0, 0, 0, 0 }
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    local k = math.floor(x / 65536) % 4
    if k == 0 then
      c[1] = c[1] + 1
    elseif k == 1 then
      c[2] = c[2] + i % 3
    elseif k == 2 then
      c[3] = c[3] + #tostring(i)
    else
      c[4] = c[4] + math.max(i, k)
    end
  end
  return table.concat(c, " ")
end

local function fib(n)
  return n < 2 and n or fib(n - 1) + fib(n - 2)
end

local ffi = require("ffi")
ffi.cdef([[void qsort(void *, size_t, size_t, int (*)(const int *, const int *));]])
local list = ffi.new("int[16]")
for i = 0, 15 do
  list[i] = i * 7 % 16
end
ffi.C.qsort(list, 16, 4, function(a, b) return a[0] - b[0] end)

print(fib(12), list[3], numbers(4000))
