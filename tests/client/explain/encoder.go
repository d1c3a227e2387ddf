// SPDX-License-Identifier: MIT
// Records are written by encoders behind an interface, one of which formats by reflection.
package main

import (
	"fmt"
	"runtime/debug"
	"strconv"
)

type record struct {
	ID    int
	Name  string
	Price float64
	Tags  []string
}

type encoder interface {
	encode(buffer []byte, r *record) []byte
}

type compact struct{}

type verbose struct{}

//go:noinline
func (compact) encode(buffer []byte, r *record) []byte {
	buffer = strconv.AppendInt(buffer, int64(r.ID), 10)
	buffer = append(buffer, ',')
	buffer = strconv.AppendQuote(buffer, r.Name)
	for _, tag := range r.Tags {
		buffer = append(buffer, tag...)
	}
	return buffer
}

//go:noinline
func (verbose) encode(buffer []byte, r *record) []byte {
	for range r.Tags {
		buffer = append(buffer, fmt.Sprintf("%+v %T %q;", *r, r, r.Tags)...)
	}
	return buffer
}

//go:noinline
func write(e encoder, buffer []byte, r *record) int {
	return len(e.encode(buffer[:0], r))
}

func main() {
	debug.SetGCPercent(-1)
	fmt.Println("function: main.write")
	fmt.Println("cause: main.verbose.encode")
	buffer := make([]byte, 0, 4096)
	sum := 0
	for i := 0; i < 180; i++ {
		r := record{ID: i, Name: "item" + strconv.Itoa(i), Price: float64(i) * 1.25, Tags: []string{"new", "blue", "large"}}
		var e encoder = compact{}
		if i == 95 {
			e = verbose{}
		}
		sum += write(e, buffer, &r)
	}
	if sum == 1 {
		fmt.Println(sum)
	}
}
