// runc-filter runs runc after it removed from the container's configuration the capabilities that
// this machine itself lacks.
//
// Where even root lacks a capability (CAP_SYS_RESOURCE on some virtual machines), runc refuses every
// privileged container with "unable to apply caps: operation not permitted". Nothing is gained or
// lost by asking for less: the kernel would not grant it. With a full set, this is plain runc.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// In the order of the kernel's bit numbers.
var capabilities = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
	SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
	SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
	WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

func main() {
	arguments := os.Args[1:]
	if file, inProcess := configuration(arguments); file != "" {
		if missing := missing(); len(missing) > 0 {
			if err := remove(file, inProcess, missing); err != nil {
				fmt.Fprintf(os.Stderr, "runc-filter: %s: %v\n", file, err)
				os.Exit(1)
			}
		}
	}
	runc, err := runc()
	if err == nil {
		err = syscall.Exec(runc, append([]string{runc}, arguments...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "runc-filter: cannot run runc: %v\n", err)
	os.Exit(1)
}

// configuration names the file that says what the container may do, if this command has one.
func configuration(arguments []string) (file string, isProcess bool) {
	command := ""
	bundle, _ := os.Getwd()
	process := ""
	for at, argument := range arguments {
		name, value, joined := strings.Cut(argument, "=")
		if !joined && at+1 < len(arguments) {
			value = arguments[at+1]
		}
		switch {
		case command == "" && (name == "create" || name == "run" || name == "restore" || name == "exec"):
			command = name
		case name == "--bundle" || name == "-b":
			bundle = value
		case name == "--process" || (name == "-p" && command == "exec"):
			process = value
		}
	}
	switch command {
	case "":
		return "", false
	case "exec":
		return process, true
	default:
		return filepath.Join(bundle, "config.json"), false
	}
}

// missing lists the capabilities that the bounding set of this machine's root lacks.
func missing() map[string]bool {
	status, err := os.ReadFile(setting("RUNC_FILTER_STATUS", "/proc/self/status"))
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(status), "\n") {
		text, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		held, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return nil
		}
		lacking := map[string]bool{}
		for bit, name := range capabilities {
			if held&(1<<bit) == 0 {
				lacking["CAP_"+name] = true
			}
		}
		return lacking
	}
	return nil
}

func remove(file string, isProcess bool, missing map[string]bool) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var whole map[string]any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // Limits go up to 2^64 - 1, which no float holds.
	if err := decoder.Decode(&whole); err != nil {
		return err
	}
	process := whole
	if !isProcess {
		process, _ = whole["process"].(map[string]any)
	}
	sets, _ := process["capabilities"].(map[string]any)
	for kind, value := range sets {
		names, _ := value.([]any)
		kept := []any{}
		for _, name := range names {
			if text, isText := name.(string); !isText || !missing[text] {
				kept = append(kept, name)
			}
		}
		sets[kind] = kept
	}
	content, err = json.Marshal(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// runc finds the real one; in the node image this program stands before it on PATH under its name.
func runc() (string, error) {
	for _, path := range []string{os.Getenv("RUNC_FILTER_RUNC"), "/usr/sbin/runc", "/usr/bin/runc"} {
		if path != "" {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	return exec.LookPath("runc")
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
