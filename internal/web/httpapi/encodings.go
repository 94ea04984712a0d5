package httpapi

import (
	"bytes"
	"encoding/json"
	"sync"

	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// mostEncodings bounds the stations whose encodings are kept, removed ones among them.
const mostEncodings = 8192

// encodings holds each station as lists show it, encoded once for all who read it, until
// something about it changes. Safe for concurrent use.
type encodings struct {
	mu sync.Mutex // mu guards of
	of map[site.StationID]encoding
}

// encoding is a station with its encoding.
type encoding struct {
	station kit.Sight
	state   site.StationState
	text    json.RawMessage
}

// encode returns a station as JSON, which must not be changed.
func (e *encodings) encode(st kit.Sight, state site.StationState) (json.RawMessage, error) {
	e.mu.Lock()
	kept := e.of[st.ID]
	e.mu.Unlock()
	if kept.text != nil && kept.station == st && kept.state.Equal(state) {
		return kept.text, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(listed(st, state)); err != nil {
		return nil, err
	}
	made := encoding{st, state, bytes.TrimSuffix(text.Bytes(), []byte("\n"))}
	if !st.OpensAgain.IsZero() { // which is so for one account
		return made.text, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil || len(e.of) >= mostEncodings {
		e.of = make(map[site.StationID]encoding)
	}
	e.of[st.ID] = made
	return made.text, nil
}
