package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/kit"
)

// Each call ends by itself when the gateway hangs.
const (
	callTimeout   = 30 * time.Second
	applyTimeout  = 10 * time.Minute
	verifyTimeout = 30 * time.Minute
	backupTimeout = time.Hour
	dialTimeout   = 5 * time.Second
)

// maxAnswer bounds an answer, in bytes: root reads those of a gateway that may have been
// taken over.
const maxAnswer = 16 << 20

// maxLine bounds one line of a stream, and the answer to a call that failed.
const maxLine = 1 << 20

// host is the host of every URL; the connection goes to the socket.
const host = "http://gatehouse"

func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	return callWithin[T](ctx, c, callTimeout, method, path, body)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, nil)
}

func remove(ctx context.Context, c *Client, path string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path, nil)
	return err
}

// list returns the list that an answer has under a name.
func list[T any](ctx context.Context, c *Client, path, name string) ([]T, error) {
	answer, err := get[map[string][]T](ctx, c, path)
	return answer[name], err
}

// callWithin makes one call and reads its whole answer.
func callWithin[T any](ctx context.Context, c *Client, limit time.Duration, method, path string, body any) (answer T, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := c.send(limited, method, path, body)
	if err != nil {
		return answer, c.explain(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNoContent {
		return answer, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return answer, c.explain(ctx, fmt.Errorf("reading the gateway's answer: %w", err))
	}
	return answer, nil
}

// download is an answer that is read piece by piece.
type download struct {
	body    io.ReadCloser
	cancel  context.CancelFunc
	explain func(error) error
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.explain(fmt.Errorf("reading the gateway's answer: %w", err))
	}
	return n, err
}

func (d *download) Close() error {
	d.cancel()
	return d.body.Close()
}

// stream makes a call whose answer is one JSON document per line. An endless one
// ends only because the gateway ends it.
func stream[T any](ctx context.Context, c *Client, path string, endless bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.send(ctx, http.MethodGet, path, nil)
		if err == nil {
			defer func() { _ = resp.Body.Close() }()
			err = readLines(resp.Body, endless, yield)
		}
		if err != nil && ctx.Err() == nil {
			var nothing T
			yield(nothing, c.explain(ctx, err))
		}
	}
}

// readLines yields each line; nil means that the stream is complete or that the
// caller has enough.
func readLines[T any](body io.Reader, endless bool, yield func(T, error) bool) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // a sign of life
		}
		item, err := readLine[T](lines.Bytes())
		if err != nil {
			return err
		}
		if !yield(item, nil) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the gateway's stream: %w", err)
	}
	if endless {
		return fault.New(fault.Unavailable, "the gateway has ended the stream: it is being stopped")
	}
	return nil
}

func readLine[T any](line []byte) (item T, err error) {
	if bytes.HasPrefix(line, []byte(`{"message":`)) {
		var broken kit.ErrorBody
		if err := json.Unmarshal(line, &broken); err == nil {
			return item, fault.New(fault.Unavailable, broken.Message)
		}
	}
	if err := json.Unmarshal(line, &item); err != nil {
		return item, fmt.Errorf("reading a line of the gateway's stream: %w", err)
	}
	return item, nil
}

// send returns the response of a success; a refusal is an error. The caller closes
// the body.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content bytes.Buffer
	if body != nil {
		encoder := json.NewEncoder(&content)
		encoder.SetEscapeHTML(false) // it would make a large site larger
		if err := encoder.Encode(body); err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, host+adminapi.Prefix+path, &content)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling the gateway: %w", err)
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, refused(resp)
}

// refused returns the error of a refused call: the kind of its status and the gateway's
// sentence.
func refused(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxLine)) // as much as arrives
	var said kit.ErrorBody
	if err := json.Unmarshal(body, &said); err != nil || said.Message == "" {
		said.Message = "the gateway answers " + resp.Status
	}
	e := &fault.Error{Kind: kit.KindOf(resp.StatusCode), Sentence: said.Message}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// explain adds a sentence that says what to do, unless err has one. The end
// of the caller's own ctx is passed on as it is.
func (c *Client) explain(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Unavailable, "the gateway does not answer on "+c.socket+
			": is `gatehouse serve` running? Start it, or name its socket with --socket", err)
	case errors.Is(err, os.ErrPermission):
		return fault.Wrap(fault.Forbidden, "no permission to use "+c.socket+
			": run this as root, as the user of the gateway, or as a member of the group of the socket", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(fault.Timeout, "the gateway on "+c.socket+" took too long to answer; look at its log", err)
	default:
		return fault.Wrap(fault.Unavailable, "the connection to the gateway on "+c.socket+" broke; look at its log", err)
	}
}
