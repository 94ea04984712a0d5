package adminapi_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

func (h *house) web(method, path, authorization string) *http.Request {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), method, path, http.NoBody)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

func TestHandler_webDoor(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.addAccount(porter, false)
	admin := h.token(chief)
	for name, c := range map[string]struct {
		authorization string
		status        int
		body          string
	}{
		"no token":           {"", 401, `{"message":"Token is invalid"}`},
		"a wrong token":      {"Bearer abc", 401, `{"message":"Token is invalid"}`},
		"another scheme":     {"Basic " + admin, 401, `{"message":"Token is invalid"}`},
		"not administrator":  {"Bearer " + h.token(porter), 403, `{"message":"Forbidden: this account is not an administrator"}`},
		"administrator":      {"Bearer " + admin, 200, `{"grants":[]}`},
		"scheme in any case": {"bEARER " + admin, 200, `{"grants":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := h.send(adminapi.Web, h.web(http.MethodGet, "/admin/v1/grants", c.authorization))
			h.want(got, c.status, c.body)
			if challenge := got.header.Get("WWW-Authenticate"); (c.status == 401) != (challenge == "Bearer") {
				t.Errorf("WWW-Authenticate is %q", challenge)
			}
			if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("header: %v", got.header)
			}
		})
	}
}

// Every route but the description, which is the same on every gateway, is behind the door.
func TestHandler_nothingBeforeTheDoor(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	for door, want := range map[adminapi.Door]int{adminapi.Web: http.StatusUnauthorized, adminapi.Socket: http.StatusForbidden} {
		for _, route := range h.api.Routes(door) {
			if route.Pattern == "/admin/v1/openapi.json" {
				continue
			}
			path := strings.NewReplacer("{email}", "a@b.test", "{station}", "1042", "{lock}", "1").Replace(route.Pattern)
			if got := h.send(door, h.web(route.Method, path, "")); got.status != want {
				t.Errorf("%s %s: %d, want %d", route.Method, path, got.status, want)
			}
		}
	}
	if len(h.unlocker.seen) != 0 || len(h.stations.Stations()) != 1 {
		t.Error("something was done")
	}
}

// A demotion or a removal takes effect with the next request.
func TestHandler_webDoorCloses(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	token := "Bearer " + h.token(chief)
	h.must(h.access.SetAdmin(t.Context(), site.Actor{}, chief, false))
	if got := h.send(adminapi.Web, h.web("GET", "/admin/v1/status", token)); got.status != 403 {
		t.Errorf("after the demotion: %d", got.status)
	}
	h.must(h.access.RemoveAccount(t.Context(), site.Actor{}, chief))
	if got := h.send(adminapi.Web, h.web("GET", "/admin/v1/status", token)); got.status != 401 {
		t.Errorf("after the removal: %d", got.status)
	}
}

func TestHandler_crossOrigin(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	tokens, err := h.access.Login(t.Context(), chief, password, access.Client{Remote: netip.MustParseAddr("192.0.2.1")})
	h.must(err)
	r := h.web(http.MethodPost, "/admin/v1/accounts/"+chief+"/revoke", "")
	r.Host = "192.0.2.2"
	r.Header.Set("Cookie", "__Host-gatehouse-gateway="+tokens.Cookie.Reveal())
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	h.want(h.send(adminapi.Web, r), 403, `{"message":"Forbidden: a page of another origin sent this"}`)
	if h.access.SessionCount() != 1 {
		t.Error("the sessions were revoked")
	}
}

func TestHandler_webActor(t *testing.T) {
	h := open(t)
	account := h.addAccount(chief, true)
	h.addStation(1042)
	r := h.web(http.MethodPost, "/admin/v1/stations/1042/locks/1/unlock", "Bearer "+h.token(chief))
	if got := h.send(adminapi.Web, r); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	by := h.unlocker.seen[0].Actor
	if by.Origin != site.Admin || by.Name != chief || by.Account != account.ID || !by.Admin || by.Session == "" {
		t.Errorf("the actor is %+v", by)
	}
}

func TestHandler_peers(t *testing.T) {
	h := open(t)
	ask := func(uid, gid, owner, group int) int {
		ctx := adminapi.PeerContext(t.Context(), uid, gid, owner, group)
		return h.send(adminapi.Socket, httptest.NewRequestWithContext(ctx, "GET", "/admin/v1/status", http.NoBody)).status
	}
	const nobody, staff = 2000000001, 2000000002
	for name, c := range map[string]struct{ uid, gid, owner, group, want int }{
		"no group at all":     {nobody, adminapi.NoGroup, 1, adminapi.NoGroup, 403},
		"root":                {0, 0, nobody, adminapi.NoGroup, 200},
		"the gateway's user":  {nobody, staff, nobody, adminapi.NoGroup, 200},
		"a stranger":          {nobody, staff, 1, adminapi.NoGroup, 403},
		"a stranger, group":   {nobody, staff, 1, 3, 403},
		"a member by its gid": {nobody, staff, 1, staff, 200},
	} {
		if got := ask(c.uid, c.gid, c.owner, c.group); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if log := h.log.String(); !strings.Contains(log, "admin socket refused a peer") || !strings.Contains(log, "uid 2000000001") {
		t.Errorf("the refusals are not in the log: %s", log)
	}
}

// A member by a supplementary group, as /etc/group says.
func TestPeer_supplementaryGroup(t *testing.T) {
	const stranger = 2000000001
	for _, member := range members(t) {
		if allowed, _ := adminapi.Peer(member.uid, stranger, stranger, member.group); !allowed {
			t.Errorf("uid %d is a member of group %d and was refused", member.uid, member.group)
		}
		if allowed, _ := adminapi.Peer(member.uid, stranger, stranger, stranger+1); allowed && member.uid != 0 {
			t.Errorf("uid %d was admitted without being a member", member.uid)
		}
	}
}

type member struct{ uid, group int }

// members returns each user of this system that is not root with its groups.
func members(t *testing.T) (list []member) {
	t.Helper()
	data, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, ":")
		u, err := user.Lookup(name)
		if err != nil || u.Uid == "0" {
			continue
		}
		groups, _ := u.GroupIds()
		for _, group := range groups {
			uid, err1 := strconv.Atoi(u.Uid)
			gid, err2 := strconv.Atoi(group)
			if err1 == nil && err2 == nil {
				list = append(list, member{uid, gid})
			}
		}
	}
	return list
}

// Over a real socket the kernel says who connected, and the journal records it.
func TestListen_peerCredentials(t *testing.T) {
	h := open(t)
	c := h.serve()
	_, err := c.AddStation(t.Context(), adminapi.NewStation{StationID: 7, Locks: 1})
	h.must(err)
	me, err := user.Current()
	h.must(err)
	record := h.recordOf(site.KindStationAdded)
	if want := "uid " + me.Uid + " (" + me.Username + ")"; record.By != want || record.Origin != site.Admin {
		t.Errorf("the record says %q and %q, want %q", record.By, record.Origin, want)
	}
}

// recordOf returns the newest record of a kind.
func (h *house) recordOf(kind site.Kind) (found site.Record) {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for _, r := range h.store.records {
		if r.Kind == kind {
			found = r
		}
	}
	return found
}

// A listener that does not tell who connects lets nobody in.
func TestHandler_listenerWithoutCredentials(t *testing.T) {
	h := open(t)
	server := httptest.NewUnstartedServer(h.handler(adminapi.Socket))
	server.Config.ConnContext = adminapi.ConnContext
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	h.must(err)
	_, err = io.WriteString(conn, "GET /admin/v1/status HTTP/1.0\r\n\r\n")
	h.must(err)
	got, err := io.ReadAll(conn)
	h.must(err)
	if !strings.HasPrefix(string(got), "HTTP/1.0 403 ") {
		t.Errorf("got %s", got)
	}
}
