-- SPDX-License-Identifier: MIT
-- Errors that are caught: the unwinder comes back to the interpreter, from Lua and from C functions.
local function fails(i)
  if i % 3 == 0 then
    error("third")
  end
  return i
end

local caught = 0
for i = 1, 30 do
  if not pcall(fails, i) or not pcall(string.rep) then
    caught = caught + 1
  end
end
print(caught)
