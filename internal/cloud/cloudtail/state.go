package cloudtail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/site"
)

// progress is what is kept of a gateway over a restart of the application.
type progress struct {
	Last  uint64 `json:"last"`
	Boots boots  `json:"boots"`
}

// stateFile is the content of [Config.State].
type stateFile struct {
	Gateways map[site.GatewayID]progress `json:"gateways"`
}

// loadState reads the file; one that is not there yet says nothing.
func loadState(path string) (stateFile, error) {
	none := stateFile{Gateways: make(map[site.GatewayID]progress)}
	if path == "" {
		return none, nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // named by whoever runs it
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	var state stateFile
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err == nil && state.Gateways == nil {
		err = errors.New("it names no gateways")
	}
	if err != nil {
		return state, fmt.Errorf("reading how far the records have come, from %s: %w", path, err)
	}
	return state, nil
}

// save writes the file, whole or not at all, and to the disk.
func (s stateFile) save(path string) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = durable.Write(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping how far the records have come, in %s: %w", path, err)
	}
	return nil
}
