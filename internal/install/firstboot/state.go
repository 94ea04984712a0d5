package firstboot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// state is what one run leaves to the next when the power is cut between: a file for
// root alone, gone when all is done.
type state struct {
	// Generated are the secrets that were generated and not yet shown, in clear text, by
	// the names of secretsOf.
	Generated map[string]string `json:"generated,omitempty"`

	OnTrial bool   `json:"onTrial,omitempty"` // the gateway has not come up with the new settings yet
	Before  []byte `json:"before,omitempty"`  // the settings before them; empty: none

	Applied []byte `json:"applied,omitempty"` // SHA-256 of a site file of which only the wiping is left
}

// secretsOf returns the secrets of a site's accounts and stations by their names.
func secretsOf(s *sitefile.Site) map[string]*site.Secret {
	all := map[string]*site.Secret{}
	for i := range s.Accounts {
		all[passwordOf(s.Accounts[i].Email)] = &s.Accounts[i].Password
	}
	for i := range s.Stations {
		all[secretOf(s.Stations[i].ID)] = &s.Stations[i].Secret
		all[tokenOf(s.Stations[i].ID)] = &s.Stations[i].Token
	}
	return all
}

func passwordOf(email site.Email) string { return "password of " + string(email) }
func secretOf(id site.StationID) string  { return "secret of " + id.String() }
func tokenOf(id site.StationID) string   { return "token of " + id.String() }

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
	return b.write(b.statePath(), text, 0o600, ownGroup)
}

// keepSecrets keeps what the gateway would generate for accounts and stations that it
// does not have yet, until it has been shown. What an earlier run kept is in force, or
// was about to be, so it comes first.
func (b *boot) keepSecrets(context.Context) error {
	fresh := map[string]string{}
	for _, a := range b.plan.would.Accounts {
		fresh[passwordOf(a.Email)] = a.Password
	}
	for _, s := range b.plan.would.Stations {
		fresh[secretOf(s.StationID)], fresh[tokenOf(s.StationID)] = s.MQTT.Password, s.StationToken
	}
	old := b.state.Generated
	b.state.Generated = map[string]string{}
	for name, stated := range secretsOf(&b.plan.site) {
		if made := cmp.Or(old[name], fresh[name]); made != "" && *stated == "" {
			b.state.Generated[name] = made
		}
	}
	return b.keepState() // also where it is empty: the settings are no longer on trial
}

// complete returns the site with what was generated for it.
func (s state) complete(in sitefile.Site) sitefile.Site {
	in.Accounts, in.Stations = slices.Clone(in.Accounts), slices.Clone(in.Stations)
	for name, secret := range secretsOf(&in) {
		*secret = cmp.Or(*secret, site.Secret(s.Generated[name]))
	}
	return in
}

// markApplied notes that only the wiping is left. The generated secrets are in the
// result by now, so they go.
func (b *boot) markApplied(context.Context) error {
	sum := sha256.Sum256(b.plan.data)
	b.state = state{Applied: sum[:]}
	return b.keepState()
}

// wipes reports whether the file at path is the one whose wiping is left. Any other, also
// one that was edited since, is a new site file.
func (s state) wipes(path string) bool {
	present, err := readSite(path)
	sum := sha256.Sum256(present)
	return err == nil && bytes.Equal(sum[:], s.Applied)
}
