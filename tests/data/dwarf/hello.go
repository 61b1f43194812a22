// Methods, closures and inlined functions.
package main

import (
	"fmt"
	"os"
	"sort"
)

type dog struct{ name string }

func twice(value int) int { return value * 2 }

//go:noinline
func (d dog) speak(loudness int) int {
	sum := 0
	for _, b := range []byte(d.name) {
		sum += twice(int(b))
	}
	return sum * loudness
}

func main() {
	words := append([]string{}, os.Args...)
	sort.Slice(words, func(i, k int) bool { return words[i] < words[k] })
	fmt.Println(dog{words[0]}.speak(3), words)
}
