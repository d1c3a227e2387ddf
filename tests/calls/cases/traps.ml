(* SPDX-License-Identifier: MIT *)
(* Exceptions: caught in direct and distant callers, in recursions by each frame or the first, reraised; tail calls, closures. *)
exception Found of int
exception Other

let rec plain n = if n = 0 then 1 else plain (n - 1) + n
[@@inline never]

let rec even n = if n = 0 then true else odd (n - 1)
and odd n = if n = 0 then false else even (n - 1)

let rec down depth n =
  if depth = 0 then (if n mod 3 = 0 then raise (Found n) else if n mod 3 = 1 then raise Other else n)
  else down (depth - 1) n + 1

(* Each frame of the recursion has a handler; some reraise. *)
let rec catches depth n =
  try if depth = 0 then down 3 n else catches (depth - 1) n + 1
  with
  | Found v when depth mod 2 = 1 -> v + plain 2
  | Other when depth > 2 -> plain 3

(* One handler below a recursion without any. *)
let first n =
  try down (n mod 5) n + plain 1 with
  | Found v -> v
  | Other -> (try down 2 (n + 1) with Other -> 4 | Found w -> w + 1)

let twice f n = f (f n)

let divides n = try 100 / n with Division_by_zero -> 0

let looks n = try List.assoc n [ (1, 2); (3, 4) ] with Not_found -> plain n

let () =
  let sum = ref 0 in
  for i = 0 to 8 do
    (try sum := !sum + catches 4 i with Found _ | Other -> incr sum);
    sum := !sum + first i + twice (fun v -> v + plain (i mod 3)) i + divides (i mod 4) + looks i;
    if even i then sum := !sum + List.fold_left ( + ) 0 (List.map (fun v -> v * i) [ 1; 2; 3 ])
  done;
  Printf.printf "%d\n" !sum
