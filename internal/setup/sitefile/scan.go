package sitefile

import (
	"strconv"
	"strings"
)

// scanner walks over TOML that is known to be valid and notes in which line each
// value stands, because the decoder does not tell. On other text its notes are of
// no use, but it always ends. Its nesting is bounded by whoever checked the text
// (see deepest).
type scanner struct {
	text  string
	pos   int
	line  int
	count map[string]int // elements so far of each array of tables, by path
	at    map[string]int // line of each value, by path: "account[0].email"

	comment func(from, to int)              // hears where each comment stands; may be nil
	single  func(path string, from, to int) // hears where each value stands; may be nil
}

// linesOf gives the line of every table and value of a valid TOML text, by path.
func linesOf(text string) map[string]int {
	s := &scanner{text: text, line: 1, count: map[string]int{}, at: map[string]int{}}
	s.document()
	return s.at
}

// document walks over the whole text.
func (s *scanner) document() {
	table := ""
	for s.space(); s.pos < len(s.text); s.space() {
		if s.peek() == '[' {
			table = s.header()
		} else {
			s.assignment(table)
		}
	}
}

// join gives the path of key within the table at path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index gives the path of the element i of the array at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// next gives one byte and counts lines.
func (s *scanner) next() byte {
	c := s.peek()
	if c == '\n' {
		s.line++
	}
	s.pos++
	return c
}

// space passes over blanks, line ends and comments.
func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.peek() {
		case ' ', '\t', '\r', '\n':
			s.next()
		case '#':
			start := s.pos
			for s.pos < len(s.text) && s.peek() != '\n' {
				s.next()
			}
			if s.comment != nil {
				s.comment(start, s.pos)
			}
		default:
			return
		}
	}
}

// note keeps the first line of a path.
func (s *scanner) note(path string) {
	if _, ok := s.at[path]; !ok {
		s.at[path] = s.line
	}
}

// header reads "[a.b]" or "[[a.b]]" and gives the path of the table that follows.
// A part that names an array of tables means its last element (TOML 1.0, "Array
// of Tables").
func (s *scanner) header() (path string) {
	s.next()
	list := s.peek() == '['
	if list {
		s.next()
	}
	for _, part := range s.key(']') {
		s.note(path)
		path = join(s.latest(path), part)
	}
	for range 2 {
		if s.peek() == ']' {
			s.next()
		}
	}
	s.note(path)
	if list {
		s.count[path]++
	}
	path = s.latest(path)
	s.note(path)
	return path
}

// latest gives the path of the last element if path is an array of tables.
func (s *scanner) latest(path string) string {
	if n, ok := s.count[path]; ok {
		return index(path, n-1)
	}
	return path
}

// assignment reads "key = value" within table.
func (s *scanner) assignment(table string) {
	path := table
	for _, part := range s.key('=') {
		path = join(path, part)
		s.note(path)
	}
	if s.peek() == '=' {
		s.next()
	}
	s.value(path)
}

// key reads a dotted key up to the byte end, which it leaves in place.
func (s *scanner) key(end byte) (parts []string) {
	for s.pos < len(s.text) {
		switch c := s.peek(); {
		case c == end || c == '\n':
			return parts
		case c == ' ' || c == '\t' || c == '.' || c == '\r':
			s.next()
		case c == '"' || c == '\'':
			parts = append(parts, s.quoted())
		default:
			start := s.pos
			for s.pos < len(s.text) && s.peek() != end && !strings.ContainsRune(" \t\r\n.", rune(s.peek())) {
				s.next()
			}
			parts = append(parts, s.text[start:s.pos])
		}
	}
	return parts
}

// value passes over one value and notes what lies within it.
func (s *scanner) value(path string) {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.next()
	}
	s.note(path)
	if s.single != nil {
		start := s.pos
		defer func() { s.single(path, start, s.pos) }()
	}
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.array(path)
	case '{':
		s.inline(path)
	default:
		for s.pos < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.peek())) {
			s.next()
		}
	}
}

func (s *scanner) array(path string) {
	s.next()
	for i := 0; s.pos < len(s.text); {
		s.space()
		switch s.peek() {
		case ']':
			s.next()
			return
		case ',', '}':
			s.next()
		default:
			s.value(index(path, i))
			i++
		}
	}
}

func (s *scanner) inline(path string) {
	s.next()
	for s.pos < len(s.text) {
		s.space()
		switch s.peek() {
		case '}':
			s.next()
			return
		case ',', ']':
			s.next()
		default:
			s.assignment(path)
		}
	}
}

// quoted passes over a string in any of the four forms and gives its text, exact
// for the forms that a key may have.
func (s *scanner) quoted() string {
	quote := s.peek()
	if triple := strings.Repeat(string(rune(quote)), 3); strings.HasPrefix(s.text[s.pos:], triple) {
		s.multiline(quote, triple)
		return ""
	}
	start := s.pos
	s.next()
	for s.pos < len(s.text) && s.peek() != quote && s.peek() != '\n' {
		if s.next() == '\\' && quote == '"' && s.peek() != '\n' {
			s.next()
		}
	}
	if s.peek() == quote {
		s.next()
	}
	text := s.text[start:min(s.pos, len(s.text))]
	if plain, err := strconv.Unquote(text); err == nil && quote == '"' {
		return plain
	}
	return strings.Trim(text, string(rune(quote)))
}

// multiline passes over a string between triple quotes, which may end in up to
// five of them.
func (s *scanner) multiline(quote byte, triple string) {
	for range 3 {
		s.next()
	}
	for s.pos < len(s.text) && !strings.HasPrefix(s.text[s.pos:], triple) {
		if s.next() == '\\' && quote == '"' {
			s.next()
		}
	}
	for range 5 {
		if s.peek() == quote {
			s.next()
		}
	}
}

// deepest gives how deep brackets nest, and keys with dots, in any text, strings
// and comments aside; and the line of the deepest place. It is asked before the
// text is decoded, because the decoder recurses into the ones and takes the cube
// of the time over the others.
func deepest(text string) (most, line int) {
	s := &scanner{text: text, line: 1}
	depth, dots, row := 0, 0, 0
	for s.space(); s.pos < len(s.text); s.space() {
		if s.line != row {
			dots, row = 0, s.line
		}
		switch s.peek() {
		case '"', '\'':
			s.quoted()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '.':
			dots++
		}
		if depth+dots > most {
			most, line = depth+dots, s.line
		}
		s.next()
	}
	return most, line
}
