// SPDX-License-Identifier: MIT
// Plants 1,210 calls of planted() for triggers, and measures them itself. Of each way but the last, 100 calls, of which
// each 20th is long: the call is plain; its goroutine goes on in another thread; its stack grows; a panic leaves it, which
// is recovered; runtime.Goexit() does; it waits for another goroutine. And 10 recursions of 61 calls, of which one is long.
//
// usage: goroutines LIMIT-NS [WAY]
//
// WAY: the number of the only way in which calls are planted, from 0 on.
//
// Waits for a line on standard input, plants, prints its counts, waits again, and ends by os.Exit() in another call. The
// counts: calls; those that have an end; of these, how many were made to take longer than the limit, took longer by their
// own measurement, and by that of their caller; how often a goroutine was in another thread.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

type way int

const (
	plain way = iota
	moved
	grown
	panicked
	exited
	blocked
	recursive
	last
)

const (
	rounds    = 100
	depth     = 61
	spins     = 1_000_000 // 6 instructions each
	sleep     = 20 * time.Millisecond
	goneLater = 4 * rounds
)

var limit time.Duration
var sink, calls, ended, made, least, most, moves int

//go:noinline
func spin(n int) int {
	v := n
	for i := 0; i < n; i++ {
		v = v ^ i + v<<1
	}
	return v
}

// Goes on in another thread: another goroutine keeps this one for itself.
//
//go:noinline
func move() {
	before := syscall.Gettid()
	for here := before; here == before; {
		locked, free := make(chan bool), make(chan bool)
		go func() {
			runtime.LockOSThread()
			locked <- true
			<-free
			runtime.UnlockOSThread()
		}()
		<-locked
		here = syscall.Gettid()
		close(free)
	}
	moves++
}

//go:noinline
func grow(n int) int {
	var room [1024]byte
	if n == 0 {
		return int(room[sink&1])
	}
	return grow(n-1) + int(room[n%len(room)])
}

//go:noinline
func wait(long bool) {
	c := make(chan bool)
	go func() {
		if long {
			time.Sleep(sleep)
		}
		c <- true
	}()
	<-c
}

//go:noinline
func planted(how way, long bool, deeper int) int {
	calls++
	begin := time.Now()
	n := 10
	if long && how != blocked && deeper == 0 {
		n = spins / 2
	}
	v := spin(n)
	switch how {
	case moved:
		move()
	case grown:
		v += grow(200)
	case panicked:
		spin(n)
		measure(begin)
		panic("planted")
	case exited:
		spin(n)
		runtime.Goexit()
	case blocked:
		wait(long)
	case recursive:
		if deeper > 0 {
			v += planted(how, long, deeper-1)
		}
	case last:
		os.Exit(0)
	}
	v += spin(n)
	measure(begin)
	return v
}

//go:noinline
func measure(begin time.Time) {
	if time.Since(begin) > limit {
		least++
	}
}

//go:noinline
func recovers(long bool) {
	defer func() { recover() }()
	planted(panicked, long, 0)
}

// Not planted, but of a name that the same pattern matches.
//
//go:noinline
func planner(how way, long, grows bool, deeper int) {
	n := 1 + deeper
	if how == recursive && grows {
		sink += grow(200) // the stack does not move in the recursion
	}
	begin := time.Now()
	if how == panicked {
		recovers(long)
	} else {
		sink += planted(how, long, deeper)
	}
	if time.Since(begin) > limit {
		most += n
	}
	if long {
		made += n
	}
	ended += n
}

// In a goroutine of its own, whose stack is small.
func plant(how way, long, grows bool, deeper int) {
	done := make(chan bool)
	go func() {
		defer close(done)
		planner(how, long, grows, deeper)
	}()
	<-done
}

// Ends as many goroutines as have ended, and more, at one time: each former one is then known to have ended. One that is
// still ending must be given the CPU first.
func reuse() {
	for runtime.NumGoroutine() > 1 {
		runtime.Gosched()
	}
	free, done := make(chan bool), make(chan bool)
	for i := 0; i < goneLater; i++ {
		go func() {
			<-free
			done <- true
		}()
	}
	runtime.Gosched()
	close(free)
	for i := 0; i < goneLater; i++ {
		<-done
	}
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	limit = time.Duration(n)
	only := last
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2])
		only = way(n)
	}
	debug.SetGCPercent(-1) // stacks do not shrink
	in := bufio.NewReader(os.Stdin)
	planted(plain, false, 0)
	fmt.Println("ready")
	in.ReadString('\n')
	calls, least = 0, 0
	for i := 0; i < rounds; i++ {
		for how := plain; how < recursive; how++ {
			if only == how || only == last {
				plant(how, i%20 == 7, false, 0)
			}
		}
		if i%10 == 0 && (only == recursive || only == last) {
			plant(recursive, i == 50, i%20 == 10, depth-1)
		}
	}
	runtime.GOMAXPROCS(1)
	reuse()
	fmt.Println(calls, ended, made, least, most, moves)
	in.ReadString('\n')
	planted(last, false, 0)
}
