package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"
)

const promptTokens = 64

const prefillAnswer = `{"id":"cmpl-0","object":"text_completion","created":1,"model":"tiny",` +
	`"choices":[{"index":0,"text":" x","logprobs":null,"finish_reason":"length"}],` +
	`"usage":{"prompt_tokens":64,"total_tokens":65,"completion_tokens":1},` +
	`"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,` +
	`"remote_block_ids":[[1,2]],"remote_engine_id":"benchmark","remote_request_id":"cmpl-0",` +
	`"remote_host":"127.0.0.1","remote_port":5600,"tp_size":1}}`

// asked is the part of a request that matters here. Every proxy passes the temperature through, so
// it carries the seconds between two tokens.
type asked struct {
	MaxTokens     int     `json:"max_tokens"`
	GapS          float64 `json:"temperature"`
	StreamOptions struct {
		ContinuousUsage bool `json:"continuous_usage_stats"`
		IncludeUsage    bool `json:"include_usage"`
	} `json:"stream_options"`
	KVTransfer struct {
		RemoteDecode bool `json:"do_remote_decode"`
	} `json:"kv_transfer_params"`
}

// engine is what each connection of the upstream speaks to: an event has `interval` tokens, as with
// vLLM's --stream-interval. The first token comes alone.
type engine struct{ interval int }

// serve answers on every port until one of them fails: some routers tell pods apart by address.
func (e engine) serve(ports []string) error {
	failed := make(chan error)
	for _, port := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		go func() { failed <- e.accept(listener) }()
	}
	return <-failed
}

func (e engine) accept(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go e.converse(conn)
	}
}

// converse answers one request after the other; whoever leaves ends it.
func (e engine) converse(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		if e.answer(conn, request.Method, body) != nil {
			return
		}
	}
}

func (e engine) answer(conn net.Conn, method string, body []byte) error {
	if method != http.MethodPost {
		return document(conn, "200 OK", "{}")
	}
	var wanted asked
	if err := json.Unmarshal(body, &wanted); err != nil {
		return document(conn, "400 Bad Request", "{}")
	}
	if wanted.KVTransfer.RemoteDecode {
		return document(conn, "200 OK", prefillAnswer)
	}
	if wanted.MaxTokens < 1 {
		return document(conn, "400 Bad Request", "{}")
	}
	return e.stream(conn, wanted)
}

func document(conn net.Conn, status, text string) error {
	_, err := fmt.Fprintf(conn,
		"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, len(text), text)
	return err
}

// stream sends events in vLLM's format. Tokens that fell due together travel together, as an engine
// merges what its front end was too slow to pass on.
func (e engine) stream(conn net.Conn, wanted asked) error {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	gap := time.Duration(wanted.GapS * float64(time.Second))
	started := time.Now()
	var event, chunks []byte
	for sent := 0; ; {
		due := sent + 1
		if gap > 0 {
			due = min(1+int(time.Since(started)/gap), wanted.MaxTokens)
		}
		for chunks = chunks[:0]; sent < due; {
			next := e.next(sent, wanted.MaxTokens)
			if next > due && gap > 0 {
				break
			}
			event = appendTokens(event[:0], sent, next, wanted)
			chunks = appendChunk(chunks, event)
			sent = next
		}
		if sent == wanted.MaxTokens {
			_, err := conn.Write(appendEnd(chunks, wanted))
			return err
		}
		if _, err := conn.Write(chunks); err != nil {
			return err
		}
		if gap > 0 {
			time.Sleep(time.Until(started.Add(time.Duration(e.next(sent, wanted.MaxTokens)-1) * gap)))
		} else {
			// Like an engine's batch: each stream has its token before one has its next.
			runtime.Gosched()
		}
	}
}

// next returns how many tokens of a stream its next event completes.
func (e engine) next(sent, most int) int {
	if sent == 0 {
		return 1
	}
	return min(sent+e.interval, most)
}

// appendTokens appends the event of the tokens after `sent`, up to `number`.
func appendTokens(to []byte, sent, number int, wanted asked) []byte {
	to = append(to, `data: {"id":"cmpl-0123456789abcdef","object":"text_completion",`+
		`"created":1790000000,"model":"tiny","choices":[{"index":0,"text":"`...)
	for ; sent < number; sent++ {
		to = append(to, token...)
	}
	to = append(to, `","logprobs":null,"finish_reason":`...)
	if number == wanted.MaxTokens {
		to = append(to, `"length"`...)
	} else {
		to = append(to, "null"...)
	}
	to = append(to, `,"stop_reason":null}]`...)
	if wanted.StreamOptions.ContinuousUsage {
		to = appendUsage(to, number)
	}
	return append(to, "}\n\n"...)
}

func appendEnd(to []byte, wanted asked) []byte {
	if wanted.StreamOptions.IncludeUsage {
		report := []byte(`data: {"id":"cmpl-0123456789abcdef","choices":[]`)
		to = appendChunk(to, append(appendUsage(report, wanted.MaxTokens), "}\n\n"...))
	}
	return append(appendChunk(to, []byte("data: [DONE]\n\n")), "0\r\n\r\n"...)
}

func appendUsage(to []byte, number int) []byte {
	to = append(to, `,"usage":{"prompt_tokens":`...)
	to = strconv.AppendInt(to, promptTokens, 10)
	to = append(to, `,"total_tokens":`...)
	to = strconv.AppendInt(to, int64(promptTokens+number), 10)
	to = append(to, `,"completion_tokens":`...)
	to = strconv.AppendInt(to, int64(number), 10)
	return append(to, '}')
}

func appendChunk(to, data []byte) []byte {
	to = strconv.AppendInt(to, int64(len(data)), 16)
	to = append(to, "\r\n"...)
	to = append(to, data...)
	return append(to, "\r\n"...)
}
