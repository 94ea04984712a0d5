package attacktest_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// An administrator who was one for a minute took a backup with the console, and signed
// access tokens of everybody with what was in it, for as long as their sessions lived: it
// held the key of access tokens and the ids that name sessions in them. Here the attacker
// has a backup of the console, one of root, every file of the data directory, and even the
// key, and tries every value in them as every part of a token.
func TestAttack_signing(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	p.Enrol(1042)
	if _, err := p.Admin.SetAdmin(t.Context(), gatewaytest.Email, true); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Admin.AddToken(t.Context(), adminapi.NewToken{Name: "Lobby", Scopes: site.Scope{UnlockAll: true}}); err != nil {
		t.Fatal(err)
	}
	bearer, _ := p.Login()
	p.Login()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	body, _ := json.Marshal(adminapi.BackupRequest{Passphrase: passphrase, Password: gatewaytest.Password})
	for guess, want := range map[string]int{"": http.StatusBadRequest, "a guess": http.StatusForbidden} {
		body, _ := json.Marshal(adminapi.BackupRequest{Passphrase: passphrase, Password: guess})
		if a := p.Do(http.MethodPost, "/admin/v1/backup", bearer, body); a.Status != want {
			t.Errorf("a backup with the password %q: %d %s", guess, a.Status, a.Body)
		}
	}
	console := p.Do(http.MethodPost, "/admin/v1/backup", bearer, body)
	if console.Status != http.StatusOK {
		t.Fatalf("the backup of the console: %d %s", console.Status, console.Body)
	}
	rooted := filepath.Join(dir, "root.backup")
	if out, status := p.Run("backup", "--passphrase-file", write("passphrase", []byte(passphrase+"\n")), rooted); status != 0 {
		t.Fatalf("the backup of root: %d %s", status, out)
	}
	key, err := os.ReadFile(filepath.Join(p.Data, "token.key"))
	if err != nil {
		t.Fatal(err)
	}

	taken := haul{t: t, files: map[string]string{}, values: map[string]bool{}}
	for name, path := range map[string]string{"console": write("console.backup", console.Body), "root": rooted} {
		files, _ := board{t: t}.unpack(path)
		for file, text := range files {
			taken.files[name+" "+file] = text
		}
	}
	for name, text := range taken.files {
		for _, form := range formsOf(string(key)) {
			if strings.Contains(text, form) {
				t.Errorf("the key of access tokens is in %s", name)
			}
		}
	}
	for _, name := range []string{"gatehouse.db", "gatehouse.db-wal", "gatehouse.db.copy"} {
		text, err := os.ReadFile(filepath.Join(p.Data, name))
		if err == nil {
			taken.files["data "+name] = string(text)
		}
	}
	taken.read(dir)

	accepted := func(token string) bool {
		return p.Do(http.MethodGet, "/local/v1/stations", token, nil).Status != http.StatusUnauthorized
	}
	genuine := claimsOf(t, bearer)
	if !accepted(signToken(t, key, genuine)) {
		t.Fatal("the forger's own tool does not work")
	}
	tried, found := 0, []string{}
	for value := range taken.values {
		for _, form := range formsOf(value) {
			claims := maps.Clone(genuine)
			claims["sid"] = form
			for _, token := range []string{form, signToken(t, key, claims)} {
				if tried++; accepted(token) {
					found = append(found, form)
				}
			}
			body, _ := json.Marshal(map[string]string{"refreshToken": form})
			if tried++; p.Do(http.MethodPost, "/v1/auth/refresh", "", body).Status == http.StatusOK {
				found = append(found, form)
			}
		}
	}
	t.Logf("%d files with %d values, %d attempts", len(taken.files), len(taken.values), tried)
	if len(found) > 0 {
		t.Errorf("%d of %d were accepted, such as %q", len(found), tried, found[0])
	}
	if len(taken.values) < 20 {
		t.Errorf("only %d values were found", len(taken.values))
	}
}

// haul is what an attacker has taken.
type haul struct {
	t      *testing.T
	files  map[string]string
	values map[string]bool // whatever in them is long enough for a secret
}

// word is a text that can be a secret.
var word = regexp.MustCompile(`[\w.-]{16,}`)

// read collects the values of every file, those of databases by column.
func (h haul) read(dir string) {
	h.t.Helper()
	for name, text := range h.files {
		if strings.HasSuffix(name, "gatehouse.db") {
			path := filepath.Join(dir, hex.EncodeToString([]byte(name))+".db")
			err := os.WriteFile(path, []byte(text), 0o600)
			if wal := h.files[name+"-wal"]; err == nil && wal != "" {
				err = os.WriteFile(path+"-wal", []byte(wal), 0o600)
			}
			if err != nil {
				h.t.Fatal(err)
			}
			h.columns(path)
		} else if !strings.Contains(name, "gatehouse.db") {
			h.add(text)
		}
	}
}

// add adds a value, and the words in it.
func (h haul) add(value string) {
	if len(value) >= 16 && len(value) <= 64 {
		h.values[value] = true
	}
	for _, w := range word.FindAllString(value, -1) {
		h.values[w] = true
	}
}

// columns adds what every column of every row of a database holds.
func (h haul) columns(path string) {
	h.t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tables, err := rowsOf(h.t.Context(), db, "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, table := range tables {
		values, err := rowsOf(h.t.Context(), db, `SELECT * FROM "`+table+`"`)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, value := range values {
			h.add(value)
		}
	}
}

// rowsOf returns every text and every blob of a result.
func rowsOf(ctx context.Context, db *sql.DB, query string) (values []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	row, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for _, v := range row {
			switch v := v.(type) {
			case string:
				values = append(values, v)
			case []byte:
				values = append(values, string(v))
			}
		}
	}
	return values, rows.Err()
}

// formsOf returns the ways in which a value may be written, and its hash likewise.
func formsOf(value string) (forms []string) {
	sum := sha256.Sum256([]byte(value))
	for _, v := range []string{value, string(sum[:])} {
		b := []byte(v)
		forms = append(forms, v, hex.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b), base64.StdEncoding.EncodeToString(b))
	}
	return slices.DeleteFunc(forms, func(f string) bool { // no header takes them
		return strings.ContainsFunc(f, func(r rune) bool { return r <= ' ' || r > '~' })
	})
}

// claimsOf returns what an access token states, with an end in an hour.
func claimsOf(t *testing.T, token string) jwt.MapClaims {
	t.Helper()
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		t.Fatal(err)
	}
	claims["exp"] = time.Now().Add(time.Hour).Unix()
	return claims
}

// signToken signs an access token with the gateway's key.
func signToken(t *testing.T, key []byte, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}
