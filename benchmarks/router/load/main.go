// load is both ends of the router's benchmark: `load upstream` is a trivial engine, `load generate`
// keeps so many streams open against it or against a router before it.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// Both commands allocate little and live briefly; collecting often would only cost time.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("give a command: upstream or generate")
	}
	command, words := words[0], words[1:]
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	switch command {
	case "upstream":
		ports := flags.String("ports", "", "`ports` to listen on, separated by commas, one per role")
		var upstream engine
		flags.IntVar(&upstream.interval, "interval", 1, "tokens of each event")
		if err := flags.Parse(words); err != nil {
			return err
		}
		return upstream.serve(strings.Split(*ports, ","))
	case "generate":
		var wanted load
		flags.IntVar(&wanted.streams, "streams", 1, "streams open at any time")
		flags.IntVar(&wanted.tokens, "tokens", 20, "tokens of each stream")
		flags.DurationVar(&wanted.gap, "gap", 0, "time between two tokens; 0: as fast as can be")
		flags.DurationVar(&wanted.ramp, "ramp", 0, "streams start evenly over it; nothing is counted")
		flags.DurationVar(&wanted.window, "window", 0, "time that is counted")
		flags.StringVar(&wanted.port, "port", "", "where streams are asked for")
		flags.StringVar(&wanted.prefillPort, "prefill-port", "", "where prefill is asked for first, if anywhere")
		flags.IntVar(&wanted.pid, "pid", 0, "process whose CPU time is read")
		if err := flags.Parse(words); err != nil {
			return err
		}
		return generate(wanted, os.Stdout)
	}
	return fmt.Errorf("there is no command %q; give upstream or generate", command)
}
