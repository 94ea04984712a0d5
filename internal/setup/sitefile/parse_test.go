package sitefile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

func ptr[T any](v T) *T { return &v }

func TestReadFile_example(t *testing.T) {
	s, err := sitefile.ReadFile("../../../configs/site.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	if s.TimeZone != "Europe/Berlin" || len(s.Accounts) != 2 || len(s.Stations) != 3 || len(s.Grants) != 3 {
		t.Fatalf("the example states %q, %d accounts, %d stations, %d grants", s.TimeZone, len(s.Accounts), len(s.Stations), len(s.Grants))
	}
	porter, north := s.Accounts[0], s.Stations[0]
	if porter.Email != "porter@example.test" || porter.Password.Reveal() != "example-porter-password" || porter.Admin != nil {
		t.Errorf("the first account is %s", porter.Email)
	}
	if admin := s.Accounts[1]; admin.Admin == nil || !*admin.Admin {
		t.Error("the second account is no administrator")
	}
	if north.ID != 1042 || *north.Name != "North entrance" || north.Locks != 2 || north.Secret == "" || north.Token == "" {
		t.Errorf("the first station is %d", north.ID)
	}
	if roof := s.Stations[2]; roof.Secret != "" || roof.Token != "" || roof.Locks != 0 {
		t.Error("the third station states more than its name")
	}
	if got := s.Grants[1].Hours.String(); got != "Mon-Fri 08:00-18:00, Sat 08:00-12:00" {
		t.Errorf("the hours read %q", got)
	}
	if got, want := s.Grants[2].Until.UTC(), time.Date(2035, 12, 31, 23, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("until reads %s, want %s", got, want)
	}
}

func TestParse_marksAndLineEnds(t *testing.T) {
	text := "\ufefftimezone = \"UTC\"\r\n[[account]]\r\nemail = \"Porter@Example.Test\"\r\n"
	s, err := sitefile.Parse("site.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if s.TimeZone != "UTC" || s.Accounts[0].Email != "porter@example.test" {
		t.Errorf("read %q and %q", s.TimeZone, s.Accounts[0].Email)
	}
	if _, err := sitefile.Parse("site.toml", nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

// Each text is one line of the case, its lines separated by "|".
func TestParse_problems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"typo":                {`[[account]]|email = "a@b.test"|emial = "a@b.test"`, `site.toml:3: unknown key "emial" in [[account]]: did you mean "email"?`},
		"typo at the top":     {`[[acount]]|email = "a@b.test"`, `site.toml:1: unknown key "acount": did you mean "account"?`},
		"unknown":             {`[[station]]|id = 1|colour = "red"`, `site.toml:3: unknown key "colour" in [[station]]: [[station]] has id, name, locks, secret, token, homeassistant`},
		"one pair":            {`[account]|email = "a@b.test"`, `site.toml:1: write [[account]] with two pairs of brackets: there may be several`},
		"not tables":          {`account = [1]`, `site.toml:1: account must hold tables`},
		"text for number":     {`[[station]]|id = 1|locks = "2"`, `site.toml:3: locks must be a whole number without quotes`},
		"number for text":     {`[[station]]|id = 1|name = 7`, `site.toml:3: name must be a text in quotes`},
		"text for truth":      {`[[account]]|email = "a@b.test"|admin = "yes"`, `site.toml:3: admin must be true or false without quotes`},
		"second account":      {"[[account]]|email = \"a@b.test\"\n\n[[account]]|admin = true|email = \"A@B.test\"", `site.toml:6: account a@b.test is in this file twice: it is also [[account]] number 1`},
		"second station":      {`[[station]]|id = 7|[[station]]|id = 7`, `site.toml:4: station 7 is in this file twice: it is also [[station]] number 1`},
		"second token":        {`[[station]]|id = 7|token = "tokentoken"|[[station]]|id = 8|token = "tokentoken"`, `site.toml:6: station 8 has the token of station 7: each needs its own`},
		"no email":            {`[[account]]|admin = true`, `site.toml:1: the account has no email`},
		"bad email":           {`[[account]]|email = "nobody"`, `site.toml:2: "nobody" is not an e-mail address: write it like porter@example.test`},
		"no id":               {`[[station]]|name = "x"`, `site.toml:1: the station needs an id from 1 to 2147483647`},
		"bad id":              {`[[station]]|id = 0`, `site.toml:2: id must be 1 or more`},
		"too many locks":      {`[[station]]|id = 1|locks = 65`, `site.toml:3: locks must be from 1 to 64, not 65`},
		"no locks":            {`[[station]]|id = 1|locks = 0`, `site.toml:3: locks must be 1 or more`},
		"control in name":     {`[[station]]|id = 1|name = "a\u0007"`, `site.toml:3: the name of station 1 must be at most 100 characters, none of them a control character`},
		"short password":      {`[[account]]|email = "a@b.test"|password = "1234567"`, `site.toml:3: the password of a@b.test is too short: 8 characters at least`},
		"long password":       {`[[account]]|email = "a@b.test"|password = "` + strings.Repeat("x", 257) + `"`, `site.toml:3: the password of a@b.test is too long: 256 bytes at most`},
		"password is email":   {`[[account]]|email = "a@bcd.test"|password = "A@BCD.test"`, `site.toml:3: the password of a@bcd.test must not be the e-mail address`},
		"common password":     {`[[account]]|email = "a@b.test"|password = "Password123"`, `site.toml:3: the password of a@b.test is one of the most common ones; choose another`},
		"empty password":      {`[[account]]|email = "a@b.test"|password = ""`, `site.toml:3: password is empty: leave the line out, and one is generated`},
		"short secret":        {`[[station]]|id = 1|secret = "short"`, `site.toml:3: the secret of station 1 must be 8 to 128 printable ASCII characters`},
		"secret not ASCII":    {`[[station]]|id = 1|secret = "with an ü in it"`, `site.toml:3: the secret of station 1 must be 8 to 128 printable ASCII characters`},
		"slash in token":      {`[[station]]|id = 1|token = "a/b/c/d/e"`, `site.toml:3: the token of station 1 must be 8 to 128 letters, digits or any of . _ ~ -`},
		"no account":          {`[[grant]]|stations = [1]`, `site.toml:1: the grant names no account`},
		"no stations":         {`[[grant]]|account = "a@b.test"`, `site.toml:1: the grant names no stations`},
		"text for stations":   {"[[grant]]|account = \"a@b.test\"|stations = [\n1,\n\"2\"]", `site.toml:3: "2" is not the name of a group: begin it with a letter, without @, at most 100 characters`},
		"truth for stations":  {`[[grant]]|account = "a@b.test"|stations = [true]`, `site.toml:3: stations must be a list of station ids without quotes and of names of groups in quotes, such as [1042, "ground floor"]`},
		"holiday hours":       {`[[grant]]|account = "a@b.test"|stations = [1]|holidays = "no"`, `site.toml:4: holidays must be a text such as "Mon-Fri 08:00-18:00" or "none"`},
		"group granted twice": {`[[grant]]|account = "x"|stations = ["y", "z"]|[[grant]]|account = " x "|stations = ["y"]`, `site.toml:6: x is granted group y here and in [[grant]] number 1: there can be only one`},
		"group without name":  {`[[group]]|accounts = []`, `site.toml:1: "" is not the name of a group: begin it with a letter, without @, at most 100 characters`},
		"group of nothing":    {`[[group]]|name = "x"`, `site.toml:1: the group needs either accounts or stations`},
		"group of both":       {`[[group]]|name = "x"|accounts = []|stations = []`, `site.toml:4: the group needs either accounts or stations`},
		"group twice":         {`[[group]]|name = "x"|accounts = []|[[group]]|name = " x"|stations = []`, `site.toml:5: group x is in this file twice: it is also [[group]] number 1`},
		"bad member":          {`[[group]]|name = "x"|accounts = ["a"]`, `site.toml:3: "a" is not an e-mail address: write it like porter@example.test`},
		"bad station":         {`[[group]]|name = "x"|stations = [0]`, `site.toml:3: a station id is a number from 1 to 2147483647, not 0`},
		"text in a group":     {`[[group]]|name = "x"|stations = ["1"]`, `site.toml:3: stations must be a list of whole numbers without quotes, such as [1042]`},
		"no holiday":          {`[[holiday]]|dates = ["12-25"]`, `site.toml:1: "" is not the name of a holiday: write 1 to 100 characters`},
		"no dates":            {`[[holiday]]|name = "x"`, `site.toml:1: a holiday has 1 to 100 dates, not 0`},
		"holiday twice":       {`[[holiday]]|name = "x"|dates = ["12-25"]|[[holiday]]|name = "x"|dates = ["12-26"]`, `site.toml:5: holiday x is in this file twice: it is also [[holiday]] number 1`},
		"bad date":            {`[[holiday]]|name = "x"|dates = ["25.12."]`, `site.toml:3: dates must be a list of texts such as ["12-25", "2026-08-03..2026-08-21"]`},
		"hours":               {`[[grant]]|account = "a@b.test"|stations = [1]|hours = "always"`, `site.toml:4: hours must be a text such as "Mon-Fri 08:00-18:00"`},
		"ends first":          {`[[grant]]|account = "a@b.test"|stations = [1]|from = 2026-02-01T00:00:00Z|until = 2026-02-01T00:00:00Z`, `site.toml:5: the grant ends before it begins: until must be later than from`},
		"same millisecond":    {`[[grant]]|account = "a@b.test"|stations = [1]|from = 2026-02-01T00:00:00.0001Z|until = 2026-02-01T00:00:00.0002Z`, `site.toml:5: the grant ends before it begins: until must be later than from`},
		"time in quotes":      {`[[grant]]|account = "a@b.test"|stations = [1]|from = "2026-02-01T00:00:00Z"`, `site.toml:4: from must be a time without quotes, with its offset from UTC, such as 2026-01-01T00:00:00Z`},
		"date only":           {`[[grant]]|account = "a@b.test"|stations = [1]|from = 2026-02-01`, `site.toml:4: from must be a time without quotes, with its offset from UTC, such as 2026-01-01T00:00:00Z`},
		"granted twice":       {`[[grant]]|account = "a@b.test"|stations = [1, 2]|[[grant]]|account = "A@b.test"|stations = [2]`, `site.toml:6: a@b.test is granted station 2 here and in [[grant]] number 1: there can be only one`},
		"time zone":           {`timezone = "Europe/Atlantis"`, `site.toml:1: "Europe/Atlantis" is not a time zone: write it like Europe/Berlin`},
		"local time zone":     {`timezone = "Local"`, `site.toml:1: "Local" is not a time zone: write it like Europe/Berlin`},
		"key twice":           {`timezone = "UTC"|timezone = "UTC"`, `site.toml:2: not valid TOML: key timezone is already defined`},
		"no quotes":           {`timezone = Europe/Berlin`, `site.toml:1: not valid TOML: a value that is neither true, false, a number nor a time needs quotes`},
		"Latin-1":             {"timezone = \"UTC\"|# caf\xe9", `site.toml:2: not valid TOML: this is not UTF-8 text: save the file as UTF-8`},
		"UTF-16":              {"\xff\xfet\x00", `site.toml:1: the file is saved as UTF-16: save it again as UTF-8 (in Notepad: Save as, Encoding, UTF-8)`},
		"UTF-16, no mark":     {"#\x00\n\x00", `site.toml:1: the file is saved as UTF-16: save it again as UTF-8 (in Notepad: Save as, Encoding, UTF-8)`},
		"nesting":             {"#|a = " + strings.Repeat("[", 100_000), `site.toml:2: not valid TOML: brackets or keys are nested too deeply`},
		"dots":                {strings.Repeat("a.", 100_000) + "a = 1", `site.toml:1: brackets or keys are nested too deeply`},
		"no password file":    {`[[account]]|email = "a@b.test"|password_file = "/nonexistent/p"`, `site.toml:3: reading password_file: /nonexistent/p: no such file or directory`},
		"curly quotes":        {`timezone = “UTC”`, `site.toml:1: not valid TOML: write straight quotes (") instead of the curly ones`},
		"other spelling":      {`timezone = "UTC"|time_zone = "UTC"`, `site.toml:2: unknown key "time_zone": did you mean "timezone"?`},
		"inline tables":       {"station = [{id = 7},\n {id = 8, lock = 2}]", `site.toml:1: unknown key "lock" in [[station]]: did you mean "locks"?`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sitefile.Parse("site.toml", []byte(strings.ReplaceAll(c.text, "|", "\n")))
			if err == nil {
				t.Fatal("parsed without an error")
			}
			if err.Error() != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", err, c.want)
			}
		})
	}
}

func TestParse_everyProblemAtOnce(t *testing.T) {
	_, err := sitefile.Parse("site.toml", []byte(`timezone = "Nowhere"
[[grant]]
account = "nobody@"
stations = []
[[account]]
email = "porter@example.test"
passwrod = "x"
admin = 1
[[station]]
id = "x"
locks = 100
`))
	var e *tomlfile.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	var lines []int
	for _, p := range e.Problems {
		lines = append(lines, p.Line)
	}
	if got, want := fmt.Sprint(lines), "[1 3 4 7 8 10 11]"; got != want {
		t.Errorf("problems in lines %s, want %s:\n%v", got, want, err)
	}
}

func TestParse_firstTwentyProblems(t *testing.T) {
	_, err := sitefile.Parse("site.toml", []byte(strings.Repeat("[[station]]\n", 27)))
	var e *tomlfile.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if len(e.Problems) != 21 || !strings.HasSuffix(err.Error(), "\nsite.toml: 7 more problems are not shown") {
		t.Errorf("%d problems:\n%v", len(e.Problems), err)
	}
}

func TestParse_sizeLimit(t *testing.T) {
	full := []byte("#" + strings.Repeat(" ", sitefile.MaxSize-1))
	if _, err := sitefile.Parse("site.toml", full); err != nil {
		t.Errorf("a file of the largest size: %v", err)
	}
	if _, err := sitefile.Parse("site.toml", append(full, ' ')); err == nil {
		t.Error("a larger file is read")
	}
}

// No problem may show a secret, however the file is broken.
func TestParse_secretsStayOut(t *testing.T) {
	const canary = "cAnArY0123456789abcd"
	for _, text := range []string{
		`[[account]]|password = ` + canary,
		`[[account]]|pasword = ` + canary,
		`[[account]]|password = "` + canary + `" x`,
		`[[account]]|password = "` + canary,
		`[[account]]|password = """|` + canary + `\u12"""`,
		`[[account]]|password = "` + canary + `\q"`,
		`[[account]]|password = ["` + canary + `"]`,
		`[[account]]|password = "` + canary + strings.Repeat("x", 300) + `"`,
		`[[account]]|password = "` + canary + `"|password_file = "x"`,
		`account = [{password = ` + canary + `}]`,
		`[[station]]|id = 1|secret = "` + canary + `\n"`,
		`[[station]]|id = 1|token = "` + canary + `/"|[[station]]|token = "` + canary + `/"`,
		`[[station]]|token = "` + canary + `"|[[station]]|token = "` + canary + `"`,
		`[[station]]|secret = 1` + canary,
		`[[station]]|secret = ` + canary + ` = 1`,
	} {
		_, err := sitefile.Parse("site.toml", []byte(strings.ReplaceAll(text, "|", "\n")))
		if err == nil {
			t.Errorf("%q is read without an error", text)
			continue
		}
		if strings.Contains(err.Error(), "AnArY") || strings.Contains(err.Error(), "cAn") {
			t.Errorf("%q shows the secret: %v", text, err)
		}
	}
	for _, number := range []string{"91827364554637281929", "9182_", "091827364", "91827364.55.1", "9182-73-64"} {
		_, err := sitefile.Parse("site.toml", []byte("[[account]]\npassword = "+number))
		if err == nil || strings.Contains(err.Error(), "9182") {
			t.Errorf("the number %s: %v", number, err)
		}
	}
}

func TestReadFile_passwordFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("good", "correct horse\r\n")
	write("lines", "correct horse\nbattery\n")
	write("empty", "\n")
	write("long", strings.Repeat("x", 5000))
	write("binary", "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8")
	write("short", "battery\n")
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"good": "", "lines": "must hold the password in its one line", "empty": "must hold the password",
		"long": "larger than 4096 bytes", "binary": "not UTF-8", "pipe": "not a regular file", ".": "not a regular file",
		"missing": "missing: no such file or directory", "short": "too short",
	} {
		path := write("site.toml", fmt.Sprintf("[[account]]\nemail = \"a@b.test\"\npassword_file = %q\n", name))
		s, err := sitefile.ReadFile(path)
		switch {
		case want == "" && (err != nil || s.Accounts[0].Password.Reveal() != "correct horse"):
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "site.toml:")):
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestReadFile_absolutePasswordFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "password")
	file := filepath.Join(t.TempDir(), "site.toml")
	text := fmt.Sprintf("[[account]]\nemail = \"a@b.test\"\npassword_file = %q\n", secret)
	if err := errors.Join(os.WriteFile(secret, []byte("correct horse"), 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := sitefile.ReadFile(file)
	if err != nil || s.Accounts[0].Password.Reveal() != "correct horse" {
		t.Errorf("got %v", err)
	}
}

func TestReadFile_both(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.toml")
	text := "[[account]]\nemail = \"a@b.test\"\npassword_file = \"x\"\npassword = \"correct horse\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sitefile.ReadFile(file)
	if err == nil || err.Error() != file+":3: keep one of password and password_file" {
		t.Errorf("got %v", err)
	}
}

func TestReadFile_missing(t *testing.T) {
	if _, err := sitefile.ReadFile(filepath.Join(t.TempDir(), "none.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestSite_Check(t *testing.T) {
	good := sitefile.Site{
		TimeZone: "Europe/Berlin",
		Accounts: []sitefile.Account{{Email: "a@b.test", Admin: ptr(true)}},
		Stations: []sitefile.Station{{ID: 1, Name: ptr("Nörd 🚪\n"), Locks: 2, Secret: "ABCDEFGHIJKL", Token: "abcdefgh"}},
		Grants:   []sitefile.Grant{{Account: site.Ref{Email: "x@y.test"}, Stations: []site.Ref{{Station: 1}, {Station: 9}}}},
	}
	if err := good.Check(); err != nil {
		t.Errorf("a good site: %v", err)
	}
	bad := sitefile.Site{
		Accounts: []sitefile.Account{{Email: "a@b.test"}, {Password: "short"}},
		Stations: []sitefile.Station{{Locks: -1}},
		Grants:   []sitefile.Grant{{Account: site.Ref{Email: "a@b.test"}, Stations: []site.Ref{{Station: -4}}}},
	}
	want := `account 2: the account has no email
account 2: the password of this account is too short: 8 characters at least
station 1: the station needs an id from 1 to 2147483647
station 1: locks must be from 1 to 64, not -1
grant 1: a station id is a number from 1 to 2147483647, not -4`
	if err := bad.Check(); err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// A site may be part of a file that holds more; only what neither parser knows is wrong.
func TestRead_foreign(t *testing.T) {
	const text = "name = \"gate\"\ntimezone = \"UTC\"\n[[account]]\nemail = \"a@b.test\"\n[http]\nnonsense = 1\n[[grant]]\naccount = \"a@b.test\"\nstations = [7]\n"
	read := func(text string) (sitefile.Site, error) {
		d, err := tomlfile.Decode("site.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s, problems := sitefile.Read(d, []string{"name", "http"})
		return s, tomlfile.Report(problems)
	}
	s, err := read(text)
	if err != nil || s.TimeZone != "UTC" || len(s.Accounts) != 1 {
		t.Fatalf("got %+v, %v", s, err)
	}
	got := []int{s.Lines.Of("timezone"), s.Accounts[0].Lines.Of("email"), s.Accounts[0].Lines.Of("password"), s.Grants[0].Lines.Of("stations")}
	if want := []int{2, 4, 3, 9}; !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	for text, want := range map[string]string{
		"naem = \"x\"":                `site.toml:1: unknown key "naem": did you mean "name"?`,
		"[htp]":                       `site.toml:1: unknown key "htp": did you mean "http"?`,
		"quux = 1":                    `site.toml:1: unknown key "quux": the file has timezone, account, station, group, holiday, grant, name, http`,
		"[station]\nbattery_low = 11": `site.toml:1: write [[station]] with two pairs of brackets: there may be several; the settings of [station] in the configuration cannot be in this file`,
	} {
		if _, err := read(text); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// The secrets of a site go over the wire and nowhere else.
func TestSite_json(t *testing.T) {
	s := sitefile.Site{
		Accounts: []sitefile.Account{{Email: "a@b.test", Password: "canary-1"}},
		Stations: []sitefile.Station{{ID: 7, Secret: "canary-2", Token: "canary-3", Lines: sitefile.Lines{"": 4}}},
	}
	text, err := json.Marshal(s)
	var back sitefile.Site
	if err != nil || strings.Count(string(text), "canary") != 3 || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(s, back) {
		t.Errorf("%s, %v", text, err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("", "site", s)
	if printed := log.String() + fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(printed, "canary") {
		t.Error(printed)
	}
}

// FuzzParse feeds arbitrary bytes to the parser: what it reads passes its own check.
func FuzzParse(f *testing.F) {
	f.Add([]byte("[[account]]\nemail = \"a@b.test\"\npassword = 'correct horse'\nadmin = true\n"))
	f.Add([]byte("[[station]]\nid = 7\nlocks = 2\n[[grant]]\naccount = \"a@b.test\"\nstations = [7,\n8]\nhours = \"Mon 08:00-09:00\"\n"))
	f.Add([]byte("\ufefftimezone = \"UTC\"\r\n#x\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := sitefile.Parse("f", data); err == nil {
			if err := s.Check(); err != nil {
				t.Errorf("parsed, but its check says: %v", err)
			}
		}
	})
}
