package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// scriptCommands are the commands of the scripts:
//
//	needs PROGRAM …                    skips the script where a program is missing; the word namespaces stands for [need.Namespaces]
//	exitcode N program args…           it must end with exactly this status
//	waitready                          until the gateway of $GATEHOUSE_DATA is ready; sets $HTTP and $MQTT to its addresses
//	waitgone                           until no gateway answers there any more
//	waitfor REGEXP gatehouse args…     runs it again and again until its output matches
//	http STATUS METHOD URL [-bearer T] [-json BODY] [NAME=field …]
//	                                   one request; NAME becomes the field of the JSON answer
//	setjson FILE NAME=field …          NAME becomes the field of the JSON in a file, or in stdout of the last exec
//	freeaddress NAME …                 NAME becomes an address that a gateway can listen on again after a restart
//	sql FILE STATEMENT                 one change to a database, as someone with access to the file makes it
//
// A field is a path such as mqtt.password or 0.stationId.
func scriptCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"needs":       cmdNeeds,
		"exitcode":    cmdExitCode,
		"waitready":   cmdWaitReady,
		"waitgone":    cmdWaitGone,
		"waitfor":     cmdWaitFor,
		"http":        cmdHTTP,
		"setjson":     cmdSetJSON,
		"sql":         cmdSQL,
		"freeaddress": cmdFreeAddress,
	}
}

func expect(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

// testOf returns the test that runs a script: prepare has kept it.
func testOf(ts *testscript.TestScript) testing.TB { return ts.Value(testKey{}).(testing.TB) }

type testKey struct{}

func cmdNeeds(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 1, "needs PROGRAM …")
	for _, name := range args {
		if name == "namespaces" {
			need.Namespaces(testOf(ts))
			continue
		}
		need.Program(testOf(ts), name)
	}
}

func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 2, "exitcode N program args…")
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}

func socketClient(ts *testscript.TestScript) *client.Client {
	return client.New(filepath.Join(ts.Getenv("GATEHOUSE_DATA"), "admin.sock"))
}

func cmdWaitReady(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 0, "waitready")
	gw := socketClient(ts)
	defer gw.Close()
	await.Until(testOf(ts), "the gateway is ready", func() bool {
		status, err := gw.Status(testOf(ts).Context())
		if err != nil || !status.Ready {
			return false
		}
		setAddresses(ts, status.Listeners)
		return true
	})
}

func setAddresses(ts *testscript.TestScript, listeners []adminapi.Listener) {
	for _, l := range listeners {
		ts.Setenv(strings.ToUpper(l.Name), l.Address)
	}
}

func cmdWaitGone(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 0, "waitgone")
	gw := socketClient(ts)
	defer gw.Close()
	await.Until(testOf(ts), "the gateway is gone", func() bool {
		_, err := gw.Status(testOf(ts).Context())
		return err != nil
	})
}

func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 2, "waitfor REGEXP program args…")
	await.Until(testOf(ts), args[0], func() bool {
		_ = ts.Exec(args[1], args[2:]...)
		return matches(ts, args[0], ts.ReadFile("stdout")+ts.ReadFile("stderr"))
	})
}

// request is an HTTP request as a script words it.
type request struct {
	status, method, url string
	bearer, body        string
	wants               []string
}

func parseRequest(ts *testscript.TestScript, args []string) request {
	r := request{status: args[0], method: args[1], url: args[2]}
	for rest := args[3:]; len(rest) > 0; {
		switch {
		case rest[0] == "-bearer" && len(rest) > 1:
			r.bearer, rest = rest[1], rest[2:]
		case rest[0] == "-json" && len(rest) > 1:
			r.body, rest = rest[1], rest[2:]
		case strings.Contains(rest[0], "="):
			r.wants, rest = append(r.wants, rest[0]), rest[1:]
		default:
			ts.Fatalf("http: what is %q?", rest[0])
		}
	}
	return r
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 3, "http STATUS METHOD URL [-bearer T] [-json BODY] [NAME=field …]")
	r := parseRequest(ts, args)
	req, err := http.NewRequestWithContext(await.Context(testOf(ts)), r.method, r.url, strings.NewReader(r.body))
	ts.Check(err)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+r.bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Logf("[http] %s\n%s", resp.Status, body)
	if strconv.Itoa(resp.StatusCode) != r.status {
		ts.Fatalf("status %d, want %s", resp.StatusCode, r.status)
	}
	setFields(ts, body, r.wants)
}

func cmdSetJSON(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 2, "setjson FILE NAME=field …")
	setFields(ts, []byte(ts.ReadFile(args[0])), args[1:])
}

// setFields sets a variable for each NAME=field.
func setFields(ts *testscript.TestScript, document []byte, wants []string) {
	if len(wants) == 0 {
		return
	}
	var value any
	ts.Check(json.Unmarshal(document, &value))
	for _, want := range wants {
		name, path, _ := strings.Cut(want, "=")
		found, err := field(value, strings.Split(path, "."))
		ts.Check(err)
		ts.Setenv(name, found)
	}
}

// field walks down a JSON value.
func field(value any, path []string) (string, error) {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			inner, ok := v[step]
			if !ok {
				return "", fmt.Errorf("no field %q in %v", step, v)
			}
			value = inner
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return "", fmt.Errorf("no element %q of %d", step, len(v))
			}
			value = v[i]
		default:
			return "", fmt.Errorf("no field %q in %v", step, value)
		}
	}
	if number, ok := value.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64), nil
	}
	return fmt.Sprint(value), nil
}

func matches(ts *testscript.TestScript, pattern, text string) bool {
	re, err := regexp.Compile(`(?m)` + pattern)
	ts.Check(err)
	return re.MatchString(text)
}

func cmdFreeAddress(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 1, "freeaddress NAME …")
	addresses, err := brokertest.FreeAddresses(len(args))
	ts.Check(err)
	for i, name := range args {
		ts.Setenv(name, addresses[i])
	}
}

func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	expect(ts, neg, args, 2, "sql FILE STATEMENT")
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	done, err := db.ExecContext(context.Background(), args[1])
	ts.Check(err)
	data := strings.HasPrefix(args[1], "UPDATE") || strings.HasPrefix(args[1], "INSERT") || strings.HasPrefix(args[1], "DELETE")
	if n, err := done.RowsAffected(); data && (err != nil || n != 1) {
		ts.Fatalf("%d rows changed (%v), want 1", n, err)
	}
}
