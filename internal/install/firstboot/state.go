package firstboot

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"gatehouse/internal/access"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// state is what one run leaves to the next when the power is cut between: a file for
// root alone, gone when all is done.
type state struct {
	Accounts map[site.Email]readable  `json:"accounts,omitempty"` // passwords that were generated and not yet told
	Stations map[site.StationID]words `json:"stations,omitempty"` // likewise
	Wiping   *wiping                  `json:"wiping,omitempty"`   // set when everything but the wiping is done
}

// readable is a secret that this package writes down in clear text.
type readable string

// words are what was generated for a station; what the site gave is empty.
type words struct {
	Secret readable `json:"secret,omitempty"`
	Token  readable `json:"token,omitempty"`
}

// wiping is the work of wiping a site file.
type wiping struct {
	Path   string   `json:"path"`
	Text   string   `json:"text"`   // what is to stand in the file; as long as what stands there
	Spans  [][2]int `json:"spans"`  // the bytes from and up to which the two differ
	Sum    []byte   `json:"sum"`    // SHA-256 of what stood in the file
	Others []string `json:"others"` // password files
	Result string   `json:"result"` // where the result of the first boot stands
}

// readState gives what an earlier run left. Nothing, or what cannot be read, is a
// fresh start: all that is lost is what an earlier run generated, and no account or
// station has it then but those that were made just before the power was cut.
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

// makeSecrets generates what the site leaves open for things that the gateway does
// not have yet, and keeps it until it has been told.
func (b *boot) makeSecrets(ctx context.Context) error {
	there, err := b.look(ctx)
	if err != nil {
		return b.refusedBy(err)
	}
	old := b.state
	b.state = state{Accounts: map[site.Email]readable{}, Stations: map[site.StationID]words{}}
	for _, a := range b.site().Accounts {
		made, kept := old.Accounts[a.Email]
		if a.Password != "" || there.accounts[a.Email] && !kept {
			continue
		}
		if !kept {
			made = readable(access.GeneratePassword().Reveal())
		}
		b.state.Accounts[a.Email] = made
	}
	for _, s := range b.site().Stations {
		made, kept := old.Stations[s.ID]
		if there.stations[s.ID] && !kept {
			continue
		}
		if made = made.fill(s); made != (words{}) {
			b.state.Stations[s.ID] = made
		}
	}
	if len(b.state.Accounts)+len(b.state.Stations) == 0 {
		return nil
	}
	return b.keepState()
}

// fill generates the words that are missing and that the site does not give: 26
// characters of base32, 130 bits, the token in lower case because it stands in URLs.
func (w words) fill(s sitefile.Station) words {
	if s.Secret != "" {
		w.Secret = ""
	} else if w.Secret == "" {
		w.Secret = readable(rand.Text())
	}
	if s.Token != "" {
		w.Token = ""
	} else if w.Token == "" {
		w.Token = readable(strings.ToLower(rand.Text()))
	}
	return w
}

// complete gives the site with what was generated for it.
func (s state) complete(in sitefile.Site) sitefile.Site {
	out := in
	out.Accounts, out.Stations = nil, nil
	for _, a := range in.Accounts {
		if made, is := s.Accounts[a.Email]; is {
			a.Password = site.Secret(made)
		}
		out.Accounts = append(out.Accounts, a)
	}
	for _, st := range in.Stations {
		made := s.Stations[st.ID]
		if made.Secret != "" {
			st.Secret = site.Secret(made.Secret)
		}
		if made.Token != "" {
			st.Token = site.Secret(made.Token)
		}
		out.Stations = append(out.Stations, st)
	}
	return out
}

// markApplied notes that only the wiping is left. The generated secrets stand in the
// result by now, so they go.
func (b *boot) markApplied(context.Context) error {
	text := sitefile.Redact(b.plan.data)
	sum := sha256.Sum256(b.plan.data)
	b.state = state{Wiping: &wiping{
		Path: b.path, Text: string(text), Spans: differences(b.plan.data, text), Sum: sum[:], Others: b.passwordFiles(),
		Result: b.out.Result,
	}}
	return b.keepState()
}

// differences gives the spans in which two texts of one length differ.
func differences(a, b []byte) (spans [][2]int) {
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if last := len(spans) - 1; last >= 0 && spans[last][1] == i {
			spans[last][1] = i + 1
		} else {
			spans = append(spans, [2]int{i, i + 1})
		}
	}
	return spans
}

// wipes reports whether the file at path is the one whose wiping is left: as it was, or
// wiped in part, which is a secret that is wiped and no change outside of the secrets.
// Any other is a new site file.
func (s state) wipes(path string) bool {
	if s.Wiping == nil || s.Wiping.Path != path {
		return false
	}
	present, err := readSite(path)
	if err != nil || len(present) != len(s.Wiping.Text) {
		return false
	}
	if sum := sha256.Sum256(present); bytes.Equal(sum[:], s.Wiping.Sum) {
		return true
	}
	begun := len(s.Wiping.Spans) == 0
	for _, span := range s.Wiping.Spans {
		if span[0] < 0 || span[0] > span[1] || span[1] > len(present) {
			return false
		}
		wiped := s.Wiping.Text[span[0]:span[1]]
		begun = begun || span[0] < span[1] && present[span[0]] == wiped[0]
		copy(present[span[0]:span[1]], wiped)
	}
	return begun && bytes.Equal(present, []byte(s.Wiping.Text))
}
