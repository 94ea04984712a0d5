package broker_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"gatehouse/internal/test/await"
)

// The files testdata/mqtt/VERSION.txt go through every normative statement of that
// version of MQTT. A line names statements, separated by commas, and then says one of:
//
//	first ANSWER PACKETS # what it is   the packets come first on a connection
//	later ANSWER PACKETS # what it is   they come after a good CONNECT
//	tested TEST                         a test of this package proves it
//	design REASON                       it is about what is not offered
//	client REASON                       it does not bind a server
//
// PACKETS are in hexadecimal digits. ANSWER is "ok=" and how the answer begins ("-":
// there is none), after which the connection lives; or "connack=", "disconnect=" and a
// code, or "close" for no answer, after which it has ended. connack3 and connack5 are
// in the form of that version, whichever the file is of. A statement that has cases has
// an accepted and a refused one.

// statements are how many each section has.
var statements = map[string]map[string]int{
	"3.1.1": {
		"1.5.3": 3, "2.2.2": 2, "2.3.1": 7, "3.1.0": 2, "3.1.2": 24, "3.1.3": 11, "3.1.4": 5, "3.2.0": 1, "3.2.2": 6,
		"3.3.1": 12, "3.3.2": 3, "3.3.4": 1, "3.3.5": 2, "3.6.1": 1, "3.8.1": 1, "3.8.3": 4, "3.8.4": 6, "3.9.3": 2,
		"3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.12.4": 1, "3.14.1": 1, "3.14.4": 3, "4.1.0": 2, "4.3.1": 1, "4.3.2": 2,
		"4.3.3": 2, "4.4.0": 1, "4.5.0": 2, "4.6.0": 6, "4.7.1": 3, "4.7.2": 1, "4.7.3": 4, "4.8.0": 2, "6.0.0": 4,
	},
	"5.0": {
		"1.5.4": 3, "1.5.5": 1, "1.5.7": 1, "2.1.3": 1, "2.2.1": 6, "2.2.2": 1, "3.1.0": 2, "3.1.2": 30, "3.1.3": 12,
		"3.1.4": 6, "3.2.0": 2, "3.2.2": 22, "3.3.1": 13, "3.3.2": 20, "3.3.4": 10, "3.4.2": 3, "3.5.2": 3, "3.6.1": 1,
		"3.6.2": 3, "3.7.2": 3, "3.8.1": 1, "3.8.3": 5, "3.8.4": 8, "3.9.2": 2, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2,
		"3.10.4": 6, "3.11.2": 2, "3.11.3": 2, "3.12.4": 1, "3.14.0": 1, "3.14.1": 1, "3.14.2": 4, "3.14.4": 3,
		"3.15.1": 1, "3.15.2": 3, "4.1.0": 2, "4.2.0": 1, "4.3.1": 1, "4.3.2": 5, "4.3.3": 13, "4.4.0": 2, "4.5.0": 2,
		"4.6.0": 6, "4.7.0": 1, "4.7.1": 2, "4.7.2": 1, "4.7.3": 4, "4.8.2": 6, "4.9.0": 3, "4.12.0": 7, "4.12.1": 2,
		"4.13.1": 1, "4.13.2": 1, "6.0.0": 4,
	},
}

// statement is one line of a file.
type statement struct {
	ids  []string
	kind string
	rest string // what follows the kind
}

func readStatements(t *testing.T, version string) (list []statement) {
	t.Helper()
	f, err := os.Open("testdata/mqtt/" + version + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for in := bufio.NewScanner(f); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		ids, rest, _ := strings.Cut(line, " ")
		kind, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
		list = append(list, statement{strings.Split(ids, ","), kind, strings.TrimSpace(rest)})
	}
	return list
}

// Every statement is there, with an accepted and a refused case where it has cases.
func TestConformance_complete(t *testing.T) {
	for version, sections := range statements {
		accepted, refused, said := make(map[string]bool), make(map[string]bool), make(map[string]bool)
		for _, s := range readStatements(t, version) {
			for _, id := range s.ids {
				section, number, _ := strings.Cut(id, "-")
				if n, err := strconv.Atoi(number); err != nil || n < 1 || n > sections[section] {
					t.Errorf("MQTT %s has no statement %s", version, id)
				}
				switch {
				case s.kind != "first" && s.kind != "later":
					said[id] = true
				case strings.HasPrefix(s.rest, "ok="):
					accepted[id] = true
				default:
					refused[id] = true
				}
			}
		}
		for section, most := range sections {
			for n := 1; n <= most; n++ {
				id := fmt.Sprintf("%s-%d", section, n)
				if id == "2.2.1-1" && version == "5.0" {
					continue // the standard has none of that number
				}
				if !said[id] && !(accepted[id] && refused[id]) {
					t.Errorf("MQTT %s, statement %s: accepted case %v, refused case %v", version, id, accepted[id], refused[id])
				}
			}
		}
	}
}

// The tests that are named exist.
func TestConformance_named(t *testing.T) {
	var tests bytes.Buffer
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name.Name()); err == nil && strings.HasSuffix(name.Name(), "_test.go") {
			tests.Write(text)
		}
	}
	for version := range statements {
		for _, s := range readStatements(t, version) {
			if s.kind == "tested" && !strings.Contains(tests.String(), "func "+s.rest) {
				t.Errorf("MQTT %s, %s: there is no %s", version, s.ids, s.rest)
			}
		}
	}
}

func TestConformance_cases(t *testing.T) {
	for name, version := range map[string]byte{"3.1.1": 4, "5.0": 5} {
		g := open(t, setup{})
		for _, s := range readStatements(t, name) {
			if s.kind != "first" && s.kind != "later" {
				continue
			}
			answer, rest, _ := strings.Cut(s.rest, " ")
			digits, what, _ := strings.Cut(rest, "#")
			packets, err := hex.DecodeString(strings.TrimSpace(digits))
			if err != nil {
				t.Fatalf("%s %s: %v", s.ids, what, err)
			}
			c := g.dial()
			if s.kind == "later" {
				c.connect(1, version)
			}
			c.try(packets)
			if err := c.answered(version, answer); err != nil {
				t.Errorf("MQTT %s, %s,%s: %v", name, s.ids, what, err)
			}
			c.close()
			await.Until(t, "the end, before the same station comes again", func() bool { return g.server.Stats().Open == 0 })
		}
		g.wellServed()
	}
}

// answered reports how the answer differs from the one that is wanted.
func (c *client) answered(version byte, want string) error {
	kind, text, _ := strings.Cut(want, "=")
	if kind == "ok" {
		begin, err := hex.DecodeString(strings.TrimSuffix(text, "-"))
		if err != nil {
			return err
		}
		got := make([]byte, len(begin))
		if _, err := io.ReadFull(c.in, got); err != nil || !bytes.Equal(got, begin) {
			return fmt.Errorf("answered %x, %w; want %x", got, err, begin)
		}
		if len(begin) == 1 { // of CONNACK
			if size, err := c.in.ReadByte(); err != nil || size < 2 {
				return fmt.Errorf("CONNACK of %d bytes, %w", size, err)
			}
			if got, err := c.in.Peek(2); err != nil || !bytes.Equal(got, []byte{0, 0}) {
				return fmt.Errorf("CONNACK %x, %w", got, err)
			}
			return nil
		}
		if !c.survives() {
			return fmt.Errorf("the connection has ended")
		}
		return nil
	}
	var end []byte
	if text != "" {
		code, err := strconv.ParseUint(text, 16, 8)
		if err != nil {
			return err
		}
		switch {
		case kind == "disconnect":
			end = []byte{0xE0, 2, byte(code), 0}
		case kind == "connack3", kind == "connack" && version == 4:
			end = []byte{0x20, 2, 0, byte(code)}
		default:
			end = []byte{0x20, 3, 0, byte(code), 0}
		}
	}
	got, err := io.ReadAll(c.in)
	if !isEnd(err) && err != nil {
		return fmt.Errorf("the connection does not end: answered %x, %w", got, err)
	}
	if !bytes.Equal(got, end) {
		return fmt.Errorf("answered %x, want %s", got, want)
	}
	return nil
}
