package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	address     = "127.0.0.1:"
	readBytes   = 64 << 10
	patience    = 60 * time.Second
	afterFailed = 50 * time.Millisecond
)

// token is the text of every token, and of nothing else in a stream, whoever passed it on.
var token = []byte(" token")

// load is what is sent: a stream is asked for again as soon as the one before it has ended.
type load struct {
	streams, tokens   int
	gap, ramp, window time.Duration
	port, prefillPort string
	pid               int
}

// result is what came back to requests that began inside the window, and the tokens seen inside it.
type result struct {
	TTFTS       []float64 `json:"ttft_s"`
	Tokens      int       `json:"tokens"`
	Failed      int       `json:"failed"`
	FirstFailed string    `json:"first_failed,omitempty"`
	CPUS        float64   `json:"cpu_s"`
}

func generate(wanted load, out io.Writer) error {
	opens := time.Now().Add(wanted.ramp)
	closes := opens.Add(wanted.window)
	results := make([]result, wanted.streams)
	var running sync.WaitGroup
	for number := range results {
		running.Add(1)
		// Nine tenths of the ramp, so that the last stream runs when the window opens.
		first := time.Now().Add(wanted.ramp * 9 / 10 * time.Duration(number) / time.Duration(wanted.streams))
		one := &streamer{load: wanted, opens: opens, closes: closes, result: &results[number]}
		go func() {
			defer running.Done()
			time.Sleep(time.Until(first))
			one.run()
		}()
	}
	cpuS, err := cpuBetween(wanted.pid, opens, closes)
	running.Wait()
	if err != nil {
		return err
	}
	total := result{TTFTS: []float64{}, CPUS: cpuS}
	for _, each := range results {
		total.TTFTS = append(total.TTFTS, each.TTFTS...)
		total.Tokens += each.Tokens
		total.Failed += each.Failed
		if total.FirstFailed == "" {
			total.FirstFailed = each.FirstFailed
		}
	}
	return json.NewEncoder(out).Encode(total)
}

// streamer has one stream after the other on connections that are kept.
type streamer struct {
	load
	opens, closes time.Time
	result        *result
	prefill       connection
	decode        connection
	seen          [readBytes]byte
}

func (s *streamer) run() {
	defer s.prefill.close()
	defer s.decode.close()
	prefill, decode := s.request(true), s.request(false)
	for {
		err := s.connect()
		started := time.Now()
		if started.After(s.closes) {
			return
		}
		if err == nil {
			err = s.ask(prefill, decode, started)
		}
		if err != nil {
			if s.result.Failed == 0 {
				s.result.FirstFailed = err.Error()
			}
			s.result.Failed++
			s.prefill.close()
			s.decode.close()
			time.Sleep(afterFailed)
		}
	}
}

func (s *streamer) connect() error {
	if s.prefillPort != "" {
		if err := s.prefill.open(s.prefillPort); err != nil {
			return err
		}
	}
	return s.decode.open(s.port)
}

// ask does both steps where there is no router to do the first, so that what a router adds is the
// difference.
func (s *streamer) ask(prefill, decode []byte, started time.Time) error {
	if s.prefillPort != "" {
		response, err := s.prefill.send(prefill)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
	}
	response, err := s.decode.send(decode)
	if err != nil {
		return err
	}
	first, err := s.count(response.Body)
	if err != nil {
		return err
	}
	if !started.Before(s.opens) {
		s.result.TTFTS = append(s.result.TTFTS, first.Sub(started).Seconds())
	}
	if response.Close {
		s.decode.close()
	}
	return nil
}

// count reads a stream to its end and returns when its first token was here.
func (s *streamer) count(body io.Reader) (first time.Time, err error) {
	whole, kept := 0, 0
	for {
		read, err := body.Read(s.seen[kept:])
		now := time.Now()
		have := s.seen[:kept+read]
		count := bytes.Count(have, token)
		if count > 0 {
			if whole == 0 {
				first = now
			}
			whole += count
			if now.After(s.opens) && now.Before(s.closes) {
				s.result.Tokens += count
			}
		}
		// What may be the beginning of a token is looked at again with what follows it.
		tail := have[max(bytes.LastIndex(have, token)+1, len(have)-len(token)+1, 0):]
		kept = copy(s.seen[:], tail)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return first, err
		}
	}
	if whole != s.tokens {
		return first, fmt.Errorf("%d tokens came, %d were asked for; last: %q", whole, s.tokens, s.seen[:kept])
	}
	return first, nil
}

func (s *streamer) request(prefill bool) []byte {
	fields := map[string]any{
		"model":       "tiny",
		"prompt":      strings.Repeat("word ", promptTokens),
		"max_tokens":  s.tokens,
		"temperature": s.gap.Seconds(),
		"stream":      !prefill,
	}
	if prefill {
		fields["max_tokens"] = 1
		fields["kv_transfer_params"] = map[string]any{"do_remote_decode": true}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // Strings and numbers only.
	}
	head := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: benchmark\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	return append([]byte(head), body...)
}

// connection is kept from request to request and opened again when it was closed.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (c *connection) open(port string) error {
	if c.conn != nil {
		return nil
	}
	conn, err := net.DialTimeout("tcp", address+port, patience)
	if err != nil {
		return err
	}
	c.conn, c.reader = conn, bufio.NewReaderSize(conn, readBytes)
	return nil
}

func (c *connection) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *connection) send(request []byte) (*http.Response, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err == nil && response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(response.Body)
		err = fmt.Errorf("%s: %s", response.Status, said)
	}
	return response, err
}

// cpuBetween returns the CPU seconds that a process, all its threads together, used in a time.
func cpuBetween(pid int, from, to time.Time) (float64, error) {
	time.Sleep(time.Until(from))
	before, err := cpuS(pid)
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Until(to))
	after, err := cpuS(pid)
	return after - before, err
}

// cpuS sums what the scheduler counted in nanoseconds: the ticks of /proc/PID/stat are too coarse
// for one stream.
func cpuS(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("process %d has no scheduler statistics; is it running?", pid)
	}
	total := 0.0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // A thread that ended meanwhile.
		}
		onCPU, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(onCPU, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		total += ns / 1e9
	}
	return total, nil
}
