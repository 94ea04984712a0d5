package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// hostileHTTP is bytes on the HTTP port that are no good request, with the answer
// that they get: a status and a message, or nothing where status is 0. The message is ""
// where net/http answers by itself, in text. STATION,
// FOREIGN, BEARER and REFRESH stand for what the account may use, another station's
// token, its access token and its refresh token.
type hostileHTTP struct {
	name, bytes string
	status      int
	message     string
}

const (
	readHead   = "GET /v1/stations/STATION HTTP/1.1\r\nHost: 192.0.2.1\r\n"
	unlockHead = "POST /v1/stations/STATION/locks/1/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n"
	bearerLine = "Authorization: Bearer BEARER\r\n"
	loginHead  = "POST /v1/auth/login HTTP/1.1\r\nHost: 192.0.2.1\r\n"
	jsonLine   = "Content-Type: application/json\r\n"
)

// post is a request with a JSON body, whose length is not announced.
func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 192.0.2.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		path, jsonLine, len(body), body)
}

func hostileRequests() []hostileHTTP {
	return []hostileHTTP{
		// No HTTP at all.
		{"nothing", "", 0, ""},
		{"MQTT", "\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd\r\n\r\n", 400, ""},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, ""},
		{"NULs", strings.Repeat("\x00", 100) + "\r\n\r\n", 400, ""},
		{"HTTP/0.9", "GET /healthz HTTP/0.9\r\nHost: 192.0.2.1\r\n\r\n", 505, ""},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404, "Not found"},
		// Requests that cannot be told apart from the next.
		{"no host", "GET /v1/stations/STATION HTTP/1.1\r\n" + bearerLine + "\r\n", 400, ""},
		{"two hosts", readHead + "Host: 192.0.2.1\r\n" + bearerLine + "\r\n", 400, ""},
		{"two lengths", unlockHead + bearerLine + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", 400, ""},
		{"length below nothing", unlockHead + bearerLine + "Content-Length: -1\r\n\r\n", 400, ""},
		{"coding unknown", loginHead + jsonLine + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, ""},
		{"chunk that is none", loginHead + jsonLine + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400, "The body did not arrive whole"},
		{"body cut off", loginHead + jsonLine + "Content-Length: 100\r\n\r\n{", 400, "The body did not arrive whole"},
		{"header of 64 KB", readHead + bearerLine + "A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431, ""},
		{"header without a colon", readHead + bearerLine + "nothing\r\n\r\n", 400, ""},
		{"header with a NUL", readHead + bearerLine + "A: \x00\r\n\r\n", 400, ""},
		// Paths.
		{"bad escape", "GET /v1/stations/%zz HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 400, ""},
		{"way out of the folder", "GET /v1/stations/x/../STATION HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Not found"},
		{"empty segment", "GET /v1//stations/STATION HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Not found"},
		{"CONNECT", "CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: 192.0.2.1:443\r\n\r\n", 404, "Not found"},
		{"other method", "PUT /v1/stations/STATION HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 405, "Method not allowed"},
		{"unlock by GET", "GET /v1/stations/STATION/locks/1/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 405, "Method not allowed"},
		{"webhooks", "DELETE /v1/webhooks/1 HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 501, "Not implemented"},
		// Not permitted.
		{"no token", unlockHead + "\r\n", 401, "Token is invalid"},
		{"two tokens", unlockHead + bearerLine + bearerLine + "\r\n", 401, "Token is invalid"},
		{"token of another scheme", unlockHead + "Authorization: Basic BEARER\r\n\r\n", 401, "Token is invalid"},
		{"token in the query", "GET /v1/stations/STATION?access_token=BEARER HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 401, "Token is invalid"},
		{"token that is cut", unlockHead + "Authorization: Bearer BEARE\r\n\r\n", 401, "Token is invalid"},
		{"token without signature", unlockHead + "Authorization: Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ4In0.\r\n\r\n", 401, "Token is invalid"},
		{"token of the wrong kind", unlockHead + "Authorization: Bearer REFRESH\r\n\r\n", 401, "Token is invalid"},
		{"foreign station", "POST /v1/stations/FOREIGN/locks/1/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Station not found"},
		{"station unknown", "GET /v1/stations/STATIO HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Station not found"},
		{"lock that is not there", "POST /v1/stations/STATION/locks/lock-3/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Station not found"},
		{"lock that is no number", "POST /v1/stations/STATION/locks/1%2F../unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Station not found"},
		{"lock of 100 digits", "POST /v1/stations/STATION/locks/" + strings.Repeat("1", 100) + "/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Station not found"},
		{"command that is no id", "GET /local/v1/commands/%00 HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 404, "Command not found"},
		{"administration by anyone", "GET /admin/v1/accounts HTTP/1.1\r\nHost: 192.0.2.1\r\n" + bearerLine + "\r\n", 403, "Forbidden: this account is not an administrator"},
		// Bodies and headers of ours.
		{"key that is empty", unlockHead + bearerLine + "Idempotency-Key: \r\n\r\n", 400, "The Idempotency-Key must be one of 1 to 255 printable ASCII characters"},
		{"key that is too long", unlockHead + bearerLine + "Idempotency-Key: " + strings.Repeat("k", 256) + "\r\n\r\n", 400, "The Idempotency-Key must be one of 1 to 255 printable ASCII characters"},
		{"two keys", unlockHead + bearerLine + "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n", 400, "The Idempotency-Key must be one of 1 to 255 printable ASCII characters"},
		{"no JSON", post("/v1/auth/login", "email=a&password=b"), 400, "The body is not a JSON object"},
		{"JSON and more", post("/v1/auth/login", `{"email":"a","password":"b"}{}`), 400, "The body is not a JSON object"},
		{"JSON of 1000 levels", post("/v1/auth/login", strings.Repeat("[", 1000)+strings.Repeat("]", 1000)), 400, "The body is not a JSON object"},
		{"JSON in UTF-16", post("/v1/auth/login", "\xff\xfe{\x00}\x00"), 400, "The body is not a JSON object"},
		{"no password", post("/v1/auth/login", `{"email":"porter@example.test","password":null}`), 400, "The field password is missing"},
		{"password that is a list", post("/v1/auth/login", `{"email":"porter@example.test","password":["a"]}`), 400, "The field password must be a string"},
		{"refresh token that is none", post("/v1/auth/refresh", `{"refreshToken":"' OR 1=1 --"}`), 401, "Token is invalid"},
		{"refresh token that is a number", post("/v1/auth/refresh", `{"refreshToken":1}`), 400, "The field refreshToken must be a string"},
		{"revocation of nothing", post("/v1/auth/revoke-all", `{}`), 400, "The field refreshToken is missing"},
		{"body in chunks of 1 MB", post("/v1/auth/login", strings.Repeat(" ", 1<<20)), 413, "The body is too large: 16 KiB at most"},
		{"form", loginHead + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\nemail=a", 415, "Content-Type must be application/json"},
	}
}

// hostileMQTT is bytes on the MQTT port: the first of a connection where version is
// 0, else those behind the CONNECT of the right station 1043. answer is all that comes
// back, in hexadecimal, as a regular expression; empty where the connection ends
// without a word.
type hostileMQTT struct {
	name    string
	version byte
	bytes   []byte
	answer  string
}

func packet(first byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)
}

func text(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}

// hello is a CONNECT; parts are what follows the keepalive.
func hello(version, flags byte, parts ...[]byte) []byte {
	head := append(text("MQTT"), version, flags, 0, 60)
	if version == 5 {
		head = append(head, 0)
	}
	return packet(0x10, append([][]byte{head}, parts...)...)
}

func hostilePackets(name, secret string) []hostileMQTT {
	id, none, one := text(name), []byte{0}, []byte{0, 1}
	report, large := []byte(`{"batteryVoltage":9}`), bytes.Repeat([]byte{' '}, 9000)
	right := [][]byte{id, id, text(secret)}
	wrong := [][]byte{id, id, text("WRONGWRONGWRONGWRONGWRONG2")}
	will := [][]byte{id, text("stations/1043/report"), text(string(report)), id, text(secret)}
	will5 := [][]byte{id, none, text("stations/1043/report"), text(string(report)), id, text(secret)}
	own, command, foreign := text("stations/1043/report"), text("stations/1043/command"), text("stations/1042/report")
	both := func(name string, bytes []byte, answer4, answer5 string) []hostileMQTT {
		return []hostileMQTT{{name, 4, bytes, answer4}, {name, 5, bytes, answer5}}
	}
	list := []hostileMQTT{
		{"nothing", 0, nil, ""},
		{"HTTP", 0, []byte("POST /v1/stations/x/locks/1/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n"), ""},
		{"TLS", 0, []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, ""},
		{"PUBLISH before CONNECT", 0, packet(0x30, own, report), ""},
		{"CONNECT of nothing", 0, []byte{0x10, 0}, ""},
		{"CONNECT of 256 MB", 0, []byte{0x10, 0xff, 0xff, 0xff, 0x7f}, ""},
		{"CONNECT without end", 0, append([]byte{0x10}, bytes.Repeat([]byte{0x80}, 100)...), ""},
		{"CONNECT with reserved flag", 0, hello(4, 0xc3, right...), "(200200..)?"},
		{"CONNECT of another protocol", 0, packet(0x10, text("AMQP"), []byte{4, 0xc2, 0, 60}, bytes.Join(right, nil)), "(200200..)?"},
		{"CONNECT of version 6", 0, hello(6, 0xc2, right...), "2003008400"},
		{"CONNECT cut in the password", 0, hello(4, 0xc2, id, id, []byte{0, 26, 'A'}), ""},
		{"CONNECT with a NUL", 0, hello(4, 0xc2, text(name+"\x00"), id, text(secret)), ""},
		{"CONNECT with invalid UTF-8", 0, hello(4, 0xc2, text("station-\xff"), id, text(secret)), ""},
		{"CONNECT with a property that is cut", 0, packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, 2, 0x11, 0}), "2003008100"},
		{"CONNECT of nobody, 3.1.1", 0, hello(4, 0x02, id), "20020004"},
		{"CONNECT of nobody, 5", 0, hello(5, 0x02, id), "2003008600"},
		{"CONNECT with the wrong secret, 3.1.1", 0, hello(4, 0xc2, wrong...), "20020004"},
		{"CONNECT with the wrong secret, 5", 0, hello(5, 0xc2, wrong...), "2003008600"},
		{"CONNECT under another client id, 3.1.1", 0, hello(4, 0xc2, text("station-1042"), id, text(secret)), "20020005"},
		{"CONNECT under another client id, 5", 0, hello(5, 0xc2, text("station-1042"), id, text(secret)), "2003008700"},
		{"CONNECT without a client id, 3.1.1", 0, hello(4, 0xc2, none, none, id, text(secret)), "20020005"},
		{"CONNECT with a will, 3.1.1", 0, hello(4, 0xc6, will...), "20020005"},
		{"CONNECT with a will, 5", 0, hello(5, 0xc6, will5...), "2003008700"},
		{"CONNECT with an authentication method", 0, packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, 7, 0x15, 0, 4}, []byte("SCRA"), bytes.Join(right, nil)), "2003008c00"},

		{"topic alias", 5, packet(0x32, own, one, []byte{3, 0x23, 0, 1}, report), "e0029400"},
		{"subscription id in a PUBLISH", 5, packet(0x30, own, []byte{2, 0x0b, 1}, report), "e0..82.*"},
		{"PUBLISH at QoS 1 to a foreign topic", 4, packet(0x32, foreign, one, report), ""},
		{"PUBLISH at QoS 1 to a foreign topic", 5, packet(0x32, foreign, one, none, report), "40..000187.*"},
		{"PUBLISH that is retained", 4, packet(0x33, own, one, report), ""},
		{"PUBLISH that is retained", 5, packet(0x33, own, one, none, report), "e0029a00"},
		{"PUBLISH at QoS 2", 4, packet(0x34, own, one, report), ""},
		{"PUBLISH at QoS 2", 5, packet(0x34, own, one, none, report), "e0029b00"},
		{"PUBLISH of a command", 5, packet(0x32, command, one, none, []byte(`{"command":"unlock"}`)), "40..000187.*"},
		{"SUBSCRIBE to a foreign topic", 4, packet(0x82, one, foreign, []byte{1}), "9003000180"},
		{"SUBSCRIBE to a foreign topic", 5, packet(0x82, one, none, foreign, []byte{1}), "900400010087"},
		{"SUBSCRIBE to everything", 4, packet(0x82, one, text("#"), []byte{1}), "9003000180"},
		{"SUBSCRIBE to everything", 5, packet(0x82, one, none, text("#"), []byte{1}), "900400010087"},
		{"SUBSCRIBE in a group", 5, packet(0x82, one, none, text("$share/g/stations/1043/command"), []byte{1}), "900400010087"},
		{"SUBSCRIBE to 200 topics", 4, packet(0x82, one, bytes.Repeat([]byte{0, 1, '#', 0}, 200)), ""},
		{"SUBSCRIBE that ends before its options", 5, []byte{0x82, 9, 0, 1, 0, 0, 4, 't', 'e', 's', 't'}, "e0028100"},
		{"SUBSCRIBE with an id", 5, packet(0x82, one, []byte{2, 0x0b, 7}, command, []byte{1}), "900400010087"},
	}
	list = append(list, both("CONNECT again", hello(4, 0xc2, right...), "", "e0028200")...)
	list = append(list, both("AUTH", []byte{0xf0, 2, 0x18, 0}, "", "e0028200")...)
	list = append(list, both("PUBREL", []byte{0x62, 2, 0, 1}, "", "e0028200")...)
	list = append(list, both("packet of type 0", []byte{0, 0}, "", "e0028200")...)
	list = append(list, both("PINGREQ with a body", []byte{0xc0, 1, 0}, "", "e0028100")...)
	list = append(list, both("PUBLISH of 9000 bytes", packet(0x30, own, large), "", "e0029500")...)
	list = append(list, both("PUBLISH cut in the topic", packet(0x30, []byte{0, 200, 's'}), "", "e0028100")...)
	list = append(list, both("PUBLISH at QoS 3", packet(0x36, own, one, none), "", "e0028100")...)
	list = append(list, both("SUBSCRIBE to nothing", []byte{0x82, 3, 0, 1, 0}, "", "e0..82.*")...)
	return list
}

// Whatever comes over the two ports of the gateway is refused, and clearly; the next
// good request is served, and the station that is connected stays so.
func TestGateway_hostile(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Configure(t))
	issued, prey := g.Enrol(1042), g.Enrol(1043)
	if err := g.Admin.Ungrant(t.Context(), gatewaytest.Email, "1043"); err != nil {
		t.Fatal(err)
	}
	access, refresh := g.Login()
	station := g.Dial(issued.MQTT)
	var commands atomic.Int64
	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil {
				return
			}
			commands.Add(1)
			if station.TryAck(c) != nil {
				return
			}
		}
	}()
	g.AwaitOnline(1042, true)
	cases := 0
	wellServed := func(t *testing.T) {
		t.Helper()
		cases++
		a := g.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil)
		if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"status":"online"`) {
			t.Errorf("the next reading: %d %s", a.Status, a.Body)
		}
		if !g.Unlock(access, issued.StationToken) {
			t.Error("the next unlock fails")
		}
	}

	fill := strings.NewReplacer("STATION", issued.StationToken, "STATIO", issued.StationToken[:25], "FOREIGN", prey.StationToken,
		"BEARER", access, "BEARE", access[:len(access)-1], "REFRESH", refresh)
	for _, c := range hostileRequests() {
		t.Run("HTTP "+c.name, func(t *testing.T) {
			checkRefusal(t, c, rawExchange(t, strings.TrimPrefix(g.HTTP, "http://"), []byte(fill.Replace(c.bytes))))
			wellServed(t)
		})
	}
	for _, c := range hostilePackets(prey.MQTT.ClientID, prey.MQTT.Password) {
		t.Run(fmt.Sprintf("MQTT %d %s", c.version, c.name), func(t *testing.T) {
			var greeting []byte
			if c.version != 0 {
				greeting = hello(c.version, 0xc2, text(prey.MQTT.ClientID), text(prey.MQTT.Username), text(prey.MQTT.Password))
			}
			answer := rawExchange(t, g.MQTT, append(greeting, c.bytes...))
			if c.version != 0 {
				answer = skipConnack(t, answer)
			}
			if got := hex.EncodeToString(answer); !regexp.MustCompile("^" + c.answer + "$").MatchString(got) {
				t.Errorf("answered %q, want %q", got, c.answer)
			}
			wellServed(t)
		})
	}

	if n := commands.Load(); n != int64(cases) || cases < 60 {
		t.Errorf("%d commands for %d cases", n, cases)
	}
	for _, st := range []site.StationID{1042, 1043} {
		if state, err := g.Admin.Station(t.Context(), st); err != nil || state.BatteryVoltage != nil {
			t.Errorf("station %d: %v, battery %v: a refused report counted", st, err, state.BatteryVoltage)
		}
	}
	presence := 0
	for _, r := range g.Records() {
		if r.Station == 1042 && (r.Kind == site.KindStationOnline || r.Kind == site.KindStationOffline) {
			presence++
		}
	}
	if presence != 1 {
		t.Errorf("the station came and went %d times, want once", presence)
	}
	// One SUBSCRIBE breaks the library that decodes it, which costs its sender the
	// connection; nothing else breaks anything.
	for trouble, most := range map[string]int{"level=ERROR": 0, "panic: ": 0, `disconnected" station=1043 reason="a packet broke`: 1} {
		if n := strings.Count(g.Log(), trouble); n > most {
			t.Errorf("the log has %q %d times, want %d at most", trouble, n, most)
		}
	}
}

// rawExchange sends bytes, says that no more come, and returns all that comes back.
func rawExchange(t *testing.T, address string, bytes []byte) []byte {
	t.Helper()
	conn := dial(t, address)
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(await.Deadline()); err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write(bytes) // the gateway may have hung up before the end
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the gateway hangs after %x", answer)
	}
	return answer
}

func checkRefusal(t *testing.T, c hostileHTTP, answer []byte) {
	t.Helper()
	if c.status == 0 {
		if len(answer) > 0 {
			t.Errorf("answered %q", answer)
		}
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		t.Fatalf("%q is no answer: %v", answer, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != c.status {
		t.Errorf("answered %d, want %d", resp.StatusCode, c.status)
	}
	if c.message == "" {
		return
	}
	var body map[string]string
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || len(body) != 1 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("no error body: %v %q", err, answer)
	}
	if body["message"] != c.message {
		t.Errorf("answered %q, want %q", body["message"], c.message)
	}
}

func skipConnack(t *testing.T, answer []byte) []byte {
	t.Helper()
	if len(answer) < 4 || answer[0] != 0x20 || answer[3] != 0 || len(answer) < 2+int(answer[1]) {
		t.Fatalf("CONNECT was answered %x", answer)
	}
	return answer[2+answer[1]:]
}
