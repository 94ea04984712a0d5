package main

import (
	"strings"
	"testing"
)

// Lines of journalctl --output=short-unix. What a client chose and a message quotes is no
// witness: it would contradict a sound journal.
func TestHeadLine(t *testing.T) {
	const prefix = "1795402510.682209 board gatehouse[32462]: "
	hash := strings.Repeat("0a", 32)
	for line, want := range map[string]bool{
		`time=2026-11-23T02:50:00.000Z level=INFO msg="journal head" seq=7 hash=` + hash:                               true,
		`{"time":"2026-11-23T02:50:00Z","level":"INFO","msg":"journal head","seq":7,"hash":"` + hash + `"}`:            true,
		`time=2026-11-23T02:50:00.000Z level=WARN msg="command refused" jti="journal head seq=7 hash=` + hash + `"`:    false,
		`{"level":"WARN","msg":"command refused","jti":" msg=\"journal head\",\"seq\":7,\"hash\":\"` + hash + `\""}`:   false,
		`time=x level=WARN msg="command refused" jti=" msg=\"journal head\" seq=7 hash=` + hash + `"`:                  false,
		`time=x level=WARN msg="command refused" jti="{\"msg\":\"journal head\",\"seq\":7,\"hash\":\"` + hash + `\"}"`: false,
		"[643B blob data]": false,
	} {
		if found := headLine.FindStringSubmatch(prefix + line); (found != nil) != want || want && (found[3] != "7" || found[4] != hash) {
			t.Errorf("%s\nfound %q", line, found)
		}
	}
}
