package firstboot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// state is what one run leaves to the next when the power is cut between: a file for
// root alone, gone when all is done. At first it has the secrets that were generated and
// not yet shown, then what is left to wipe.
type state struct {
	Accounts map[site.Email]readable  `json:"accounts,omitempty"`
	Stations map[site.StationID]words `json:"stations,omitempty"`

	Applied []byte   `json:"applied,omitempty"` // SHA-256 of the site file that was applied
	Others  []string `json:"others,omitempty"`  // its password files
	Result  string   `json:"result,omitempty"`  // where the result of the first boot is
}

// readable is a secret that this package writes down in clear text.
type readable string

// words are what was generated for a station; what the site states is empty.
type words struct {
	Secret readable `json:"secret,omitempty"`
	Token  readable `json:"token,omitempty"`
}

// readState returns what an earlier run left. Nothing, or what cannot be read, is a
// fresh start: all that is lost is what an earlier run generated, and no account or
// station has it then but those that were added just before the power was cut.
func readState(path string) (s state) {
	text, err := os.ReadFile(path) //nolint:gosec // a fixed name beside the configuration
	if err != nil || json.Unmarshal(text, &s) != nil {
		return state{}
	}
	return s
}

func (b *boot) keepState() error {
	text, err := json.Marshal(b.state)
	if err != nil {
		return fmt.Errorf("keeping the state of the first boot: %w", err)
	}
	if err := b.disk.Write(b.statePath(), text, 0o600, ownGroup); err != nil {
		return refuse(b.statePath(), "the file cannot be written: %s", cause(err))
	}
	return nil
}

// keepSecrets keeps what the gateway would generate for accounts and stations that it
// does not have yet, until it has been shown. What an earlier run kept is in force, or
// was about to be, so it comes first.
func (b *boot) keepSecrets(context.Context) error {
	old := b.state
	b.state = state{Accounts: map[site.Email]readable{}, Stations: map[site.StationID]words{}}
	for _, a := range b.plan.would.Accounts {
		if a.Password != "" {
			b.state.Accounts[a.Email] = readable(a.Password)
		}
	}
	generated := map[site.StationID]words{}
	for _, s := range b.plan.would.Stations {
		generated[s.StationID] = words{Secret: readable(s.MQTT.Password), Token: readable(s.StationToken)}
	}
	for _, a := range b.plan.site.Accounts {
		if kept, is := old.Accounts[a.Email]; is && a.Password == "" {
			b.state.Accounts[a.Email] = kept
		}
	}
	for _, s := range b.plan.site.Stations {
		made, is := old.Stations[s.ID]
		if !is {
			made = generated[s.ID]
		}
		if made = made.without(s); made != (words{}) {
			b.state.Stations[s.ID] = made
		}
	}
	return b.keepState() // also where it is empty: the folder must be writable before anything changes
}

// without removes what the site states.
func (w words) without(s sitefile.Station) words {
	if s.Secret != "" {
		w.Secret = ""
	}
	if s.Token != "" {
		w.Token = ""
	}
	return w
}

// complete returns the site with what was generated for it.
func (s state) complete(in sitefile.Site) sitefile.Site {
	out := in
	out.Accounts, out.Stations = nil, nil
	for _, a := range in.Accounts {
		if made, is := s.Accounts[a.Email]; is && a.Password == "" {
			a.Password = site.Secret(made)
		}
		out.Accounts = append(out.Accounts, a)
	}
	for _, st := range in.Stations {
		made := s.Stations[st.ID].without(st)
		st.Secret += site.Secret(made.Secret)
		st.Token += site.Secret(made.Token)
		out.Stations = append(out.Stations, st)
	}
	return out
}

// markApplied notes that only the wiping is left. The generated secrets are in the
// result by now, so they go.
func (b *boot) markApplied(context.Context) error {
	sum := sha256.Sum256(b.plan.data)
	b.state = state{Applied: sum[:], Others: b.passwordFiles(), Result: b.out.Result}
	return b.keepState()
}

// wipes reports whether the file at path is the one whose wiping is left. Any other, also
// one that was edited since, is a new site file.
func (s state) wipes(path string) bool {
	if len(s.Applied) == 0 {
		return false
	}
	present, err := readSite(path)
	sum := sha256.Sum256(present)
	return err == nil && bytes.Equal(sum[:], s.Applied)
}
