package access_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
)

// badRefreshTokens are texts near a good refresh token that name no session.
func badRefreshTokens(good site.Secret) []site.Secret {
	text := good.Reveal()
	return []site.Secret{
		"", " ", "null", site.Secret(uuid.NewString()), site.Secret(uuid.Nil.String()),
		site.Secret(strings.ReplaceAll(text, "-", "")), site.Secret("{" + text + "}"), site.Secret("urn:uuid:" + text),
		site.Secret(text + " "), site.Secret(" " + text), site.Secret(text + "\n"), site.Secret(text[:35]),
		site.Secret(strings.Replace(text, "-", "_", 1)), site.Secret(strings.Repeat("0", 36)),
		site.Secret(strings.Repeat("-", 36)), site.Secret(strings.Repeat(text, 1000)), site.Secret(text[:35] + "g"),
	}
}

func TestService_Refresh(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	for _, refresh := range badRefreshTokens(tokens.Refresh) {
		_, err := h.Refresh(t.Context(), refresh)
		h.refused(err, "Token is invalid")
	}
	h.clock.advance(access.AccessLife)
	_, err := h.Authenticate(tokens.Access)
	h.refused(err, "Token is invalid")
	h.store.fail("", errDisk) // a refresh writes nothing
	fresh, err := h.Refresh(t.Context(), tokens.Refresh)
	h.ok(err)
	h.actor(fresh)
	h.clock.advance(access.SessionLife)
	_, err = h.Refresh(t.Context(), tokens.Refresh)
	h.refused(err, "Token is invalid")
}

func TestService_Refresh_parallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		tokens := h.login(porter)
		var seen sync.Map
		parallel(50, func(int) {
			fresh, err := h.Refresh(context.Background(), tokens.Refresh)
			h.ok(err)
			_, err = h.Authenticate(fresh)
			h.ok(err)
			if _, again := seen.LoadOrStore(fresh, true); again || fresh == tokens.Access {
				t.Error("the same token was given twice")
			}
		})
		h.alive(tokens)
	})
}

// A refresh returns a new token within the same second too, dated now and for an hour.
func TestService_Refresh_sameSecond(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	seen := map[site.Secret]bool{tokens.Access: true}
	for i := range 100 {
		fresh := mustRefresh(t, h, tokens.Refresh)
		if seen[fresh] {
			t.Fatalf("refresh %d returns a token that was there before", i)
		}
		seen[fresh] = true
		claims := decode(t, fresh)
		if iat := int64(claims["iat"].(float64)); iat != h.clock.Now().Unix() || int64(claims["exp"].(float64)) != iat+3600 {
			t.Errorf("refresh %d says %v", i, claims)
		}
		if got := slices.Sorted(maps.Keys(claims)); !slices.Equal(got, []string{"exp", "iat", "iss", "sid", "sub"}) {
			t.Errorf("the claims are %v", got)
		}
		h.actor(fresh)
	}
}

func TestService_Authenticate_expires(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	h.clock.advance(time.Unix(int64(decode(t, tokens.Access)["exp"].(float64)), 0).Sub(h.clock.Now()) - time.Millisecond)
	h.actor(tokens.Access)
	h.clock.advance(time.Millisecond)
	_, err := h.Authenticate(tokens.Access)
	h.refused(err, "Token is invalid")
}

// A token that is made just before its session ends does not outlive it.
func TestService_Authenticate_endsWithSession(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	h.clock.advance(access.SessionLife - 10*time.Minute)
	fresh, err := h.Refresh(t.Context(), tokens.Refresh)
	h.ok(err)
	exp := decode(t, fresh)["exp"].(float64)
	if end := h.clock.Now().Add(10 * time.Minute); exp > float64(end.Unix()) {
		t.Errorf("exp is %v seconds after the session's end", exp-float64(end.Unix()))
	}
	forged := h.forge(fresh, func(_, _ map[string]any) {}, keyText)
	h.actor(forged)
	h.clock.advance(10 * time.Minute)
	_, err = h.Authenticate(forged)
	h.refused(err, "Token is invalid")
}

func TestService_Authenticate_claims(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	tokens := h.login(porter)
	claims := decode(t, tokens.Access)
	want := []string{"exp", "iat", "iss", "sid", "sub"}
	if got := slices.Sorted(maps.Keys(claims)); !slices.Equal(got, want) {
		t.Errorf("the claims are %v, want %v", got, want)
	}
	_, sid, id := access.Chain(tokens.Refresh)
	if claims["iss"] != string(issuer) || claims["sub"] != string(account.ID) || claims["sid"] != sid.Reveal() || h.store.kept()[0] != id {
		t.Errorf("the claims are %v", claims)
	}
	if claims["exp"].(float64)-claims["iat"].(float64) != 3600 {
		t.Errorf("exp is not an hour after iat: %v", claims)
	}
}

// decode reads the claims of a token without judging it.
func decode(t failer, token site.Secret) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[1])
	if err != nil {
		t.Fatalf("decoding a token: %v", err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatalf("decoding a token: %v", err)
	}
	return claims
}

// forge makes a token like that of a live session with some changes; the key is what an
// attacker cannot have, unless a case says otherwise.
func (h *house) forge(like site.Secret, change func(header, claims map[string]any), key string) site.Secret {
	h.t.Helper()
	method := jwt.SigningMethod(jwt.SigningMethodHS256)
	header := map[string]any{"alg": "HS256", "typ": "JWT"}
	now := h.clock.Now()
	claims := decode(h.t, like)
	claims["iat"], claims["exp"] = now.Unix(), now.Add(time.Hour).Unix()
	change(header, claims)
	if alg, ok := header["alg"].(string); ok && jwt.GetSigningMethod(alg) != nil {
		method = jwt.GetSigningMethod(alg)
	}
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	token.Header = header
	var with any = []byte(key)
	if method == jwt.SigningMethodNone {
		with = jwt.UnsafeAllowNoneSignatureType
	}
	text, err := token.SignedString(with)
	if err != nil {
		h.t.Fatalf("forging a token: %v", err)
	}
	return site.Secret(text)
}

func TestService_Authenticate_forged(t *testing.T) {
	h := open(t)
	h.add(porter)
	other := h.add(guest)
	like := h.login(porter).Access
	h.actor(h.forge(like, func(_, _ map[string]any) {}, keyText)) // the forger's tool works
	type change = func(header, claims map[string]any)
	cases := map[string]struct {
		change change
		key    string
	}{
		"other key":            {func(_, _ map[string]any) {}, "another-key-of-these-tests-01234567"},
		"empty key":            {func(_, _ map[string]any) {}, ""},
		"alg none":             {func(h, _ map[string]any) { h["alg"] = "none" }, keyText},
		"alg HS512":            {func(h, _ map[string]any) { h["alg"] = "HS512" }, keyText},
		"alg HS384":            {func(h, _ map[string]any) { h["alg"] = "HS384" }, keyText},
		"alg hs256":            {func(h, _ map[string]any) { h["alg"] = "hs256" }, keyText},
		"alg unknown":          {func(h, _ map[string]any) { h["alg"] = "XYZ" }, keyText},
		"alg missing":          {func(h, _ map[string]any) { delete(h, "alg") }, keyText},
		"typ other":            {func(h, _ map[string]any) { h["typ"] = "at+jwt" }, keyText},
		"typ missing":          {func(h, _ map[string]any) { delete(h, "typ") }, keyText},
		"kid":                  {func(h, _ map[string]any) { h["kid"] = "../../dev/null" }, keyText},
		"crit":                 {func(h, _ map[string]any) { h["crit"] = []string{"b64"} }, keyText},
		"jwk instead of typ":   {func(h, _ map[string]any) { delete(h, "typ"); h["jwk"] = map[string]any{} }, keyText},
		"other issuer":         {func(_, c map[string]any) { c["iss"] = "another" }, keyText},
		"no issuer":            {func(_, c map[string]any) { delete(c, "iss") }, keyText},
		"no expiry":            {func(_, c map[string]any) { delete(c, "exp") }, keyText},
		"null expiry":          {func(_, c map[string]any) { c["exp"] = nil }, keyText},
		"text expiry":          {func(_, c map[string]any) { c["exp"] = "tomorrow" }, keyText},
		"expired":              {func(_, c map[string]any) { c["exp"] = h.clock.Now().Unix() }, keyText},
		"not yet":              {func(_, c map[string]any) { c["nbf"] = h.clock.Now().Add(time.Hour).Unix() }, keyText},
		"other account":        {func(_, c map[string]any) { c["sub"] = string(other.ID) }, keyText},
		"no account":           {func(_, c map[string]any) { delete(c, "sub") }, keyText},
		"other session":        {func(_, c map[string]any) { c["sid"] = uuid.NewString() }, keyText},
		"no session":           {func(_, c map[string]any) { delete(c, "sid") }, keyText},
		"list for a session":   {func(_, c map[string]any) { c["sid"] = []any{c["sid"]} }, keyText},
		"overlong":             {func(_, c map[string]any) { c["pad"] = strings.Repeat("x", 1024) }, keyText},
		"refresh for a token":  {func(_, c map[string]any) { clear(c) }, keyText},
		"everything is absent": {func(h, c map[string]any) { clear(h); clear(c) }, keyText},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := h.Authenticate(h.forge(like, c.change, c.key))
			h.refused(err, "Token is invalid")
			_, err = h.AuthenticateToRevoke(h.forge(like, c.change, c.key))
			h.refused(err, "Token is invalid")
		})
	}
}

// A clock may step back a little under a token's iat; that is no attack.
func TestService_Authenticate_issuedInFuture(t *testing.T) {
	h := open(t)
	h.add(porter)
	like := h.login(porter).Access
	h.actor(h.forge(like, func(_, c map[string]any) { c["iat"] = h.clock.Now().Add(time.Hour).Unix() }, keyText))
}

func TestService_Authenticate_tampered(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	good := tokens.Access.Reveal()
	for i := range good {
		for _, c := range []byte{'A', 'b', '.', '=', ' ', 0} {
			if good[i] == c {
				continue
			}
			if _, err := h.Authenticate(site.Secret(good[:i] + string(c) + good[i+1:])); err == nil {
				t.Fatalf("the token is taken with byte %d changed to %q", i, c)
			}
		}
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, good[len(good)-1]) // it carries four bits and two of padding
	if _, err := h.Authenticate(site.Secret(good[:len(good)-1] + alphabet[last+1:last+2])); err == nil {
		t.Error("the token is taken with another spelling of its signature")
	}
	parts := strings.Split(good, ".")
	for _, bad := range []string{
		"", ".", "..", "...", good + ".", "." + good, good + "=", " " + good, "Bearer " + good,
		parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".", parts[1] + "." + parts[0] + "." + parts[2],
		tokens.Refresh.Reveal(), good + good, "null.null.null", "bnVsbA.bnVsbA." + parts[2],
	} {
		_, err := h.Authenticate(site.Secret(bad))
		h.refused(err, "Token is invalid")
	}
}

// A token of a gateway with the same key but another id, or the same id and another
// key (a board that was set up anew), is nothing here.
func TestService_Authenticate_otherGateway(t *testing.T) {
	for name, tweak := range map[string]func(*access.Config){
		"id":  func(c *access.Config) { c.Issuer = "another" },
		"key": func(c *access.Config) { c.Key = []byte(strings.ToUpper(keyText)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			tokens := h.login(porter)
			h.tweak = append(h.tweak, tweak)
			h.restart()
			_, err := h.Authenticate(tokens.Access)
			h.refused(err, "Token is invalid")
		})
	}
}

func FuzzService_Authenticate(f *testing.F) {
	h := open(f)
	h.add(porter)
	good := h.login(porter).Access.Reveal()
	parts := strings.Split(good, ".")
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + parts[1] + ".")
	f.Add("bnVsbA.bnVsbA." + parts[2])
	f.Add(parts[0] + ".bnVsbA." + parts[2])
	f.Fuzz(func(t *testing.T, token string) {
		actor, err := h.Authenticate(site.Secret(token))
		// base64 decoders pass over line ends; that changes no claim.
		if err == nil && strings.NewReplacer("\r", "", "\n", "").Replace(token) != good {
			t.Errorf("%q is taken for %+v", token, actor)
		}
	})
}
