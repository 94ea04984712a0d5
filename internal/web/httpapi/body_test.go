package httpapi_test

import (
	"strings"
	"testing"

	"gatehouse/internal/web/kit"
)

// Package webtest holds every route to one JSON object; these are the fields of a login.
func TestBody_malformed(t *testing.T) {
	w := newWorld(t)
	malformed := message("The body is not a JSON object")
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for name, c := range map[string]struct{ body, want string }{
		"empty":                {"", message("The field email is missing")},
		"UTF-16":               {"\xff\xfe{\x00}\x00", malformed},
		"deep":                 {deep, malformed},
		"no e-mail":            {`{"password":"b"}`, message("The field email is missing")},
		"no password":          {`{"email":"a"}`, message("The field password is missing")},
		"neither":              {`{}`, message("The field email is missing")},
		"e-mail null":          {`{"email":null,"password":"b"}`, message("The field email is missing")},
		"e-mail empty":         {`{"email":"","password":"b"}`, message("The field email is missing")},
		"password empty":       {`{"email":"a","password":""}`, message("The field password is missing")},
		"e-mail a number":      {`{"email":1,"password":"b"}`, message("The field email must be a string")},
		"password true":        {`{"email":"a","password":true}`, message("The field password must be a string")},
		"password an object":   {`{"email":"a","password":{"a":"b"}}`, message("The field password must be a string")},
		"e-mail an array":      {`{"email":["a"],"password":"b"}`, message("The field email must be a string")},
		"other case":           {`{"Email":"` + email + `","PASSWORD":"` + password + `"}`, message("The field email is missing")},
		"repeated":             {`{"email":"a","password":"b","password":1}`, message(`The field \"password\" is repeated`)},
		"repeated, escaped":    {`{"email":"a","e\u006dail":"a","password":"b"}`, message(`The field \"email\" is repeated`)},
		"repeated below":       {`{"email":"a","password":"b","x":[{"y":1,"y":1}]}`, message(`The field \"y\" is repeated`)},
		"quote in a nest test": {`{"email":"\"[[[[","password":"b"`, malformed},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.do(request{method: "POST", path: "/v1/auth/login", body: c.body})
			got.want(t, 400, c.want)
		})
	}
}

func TestBody_taken(t *testing.T) {
	w := newWorld(t)
	brackets := strings.Repeat("[{", 100)
	for name, body := range map[string]string{
		"white space":         " \n\t" + goodLogin + "\r\n ",
		"unknown fields":      `{"remember":{"days":[1,2]},"email":"` + email + `","password":"` + password + `","x":null}`,
		"escaped":             `{"em\u0061il":"` + email + `","password":"` + password + `"}`,
		"brackets in a text":  `{"email":"` + email + `","password":"` + password + `","x":"` + brackets + `\"` + brackets + `"}`,
		"as large as allowed": goodLogin + strings.Repeat(" ", kit.MaxBody-len(goodLogin)),
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.do(request{method: "POST", path: "/v1/auth/login", body: body}); got.status != 200 {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
}

func TestBody_tooLarge(t *testing.T) {
	w := newWorld(t)
	want := message("The body is too large: 16 KiB at most")
	for _, path := range []string{"/v1/auth/login", "/v1/auth/refresh", "/v1/auth/revoke", "/v1/auth/revoke-all"} {
		for _, size := range []int{kit.MaxBody + 1, 1 << 20} {
			body := goodLogin + strings.Repeat(" ", size-len(goodLogin))
			w.do(request{method: "POST", path: path, body: body}).want(t, 413, want)

			req := w.build(request{method: "POST", path: path, body: body})
			req.ContentLength = -1 // chunked: the length is not announced
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 413 {
				t.Errorf("%s, %d bytes in chunks: %d", path, size, resp.StatusCode)
			}
		}
	}
}

// A body that unlocking does not read is still not taken at any size.
func TestBody_tooLarge_unlock(t *testing.T) {
	w := newWorld(t)
	for _, base := range []string{"/v1", "/local/v1"} {
		unlock := request{method: "POST", path: base + "/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken}
		sent := len(w.unlocker.requests)
		unlock.body = strings.Repeat(" ", kit.MaxBody+1)
		w.do(unlock).want(t, 413, message("The body is too large: 16 KiB at most"))
		if len(w.unlocker.requests) != sent {
			t.Errorf("%s: a command was sent", base)
		}
		unlock.body = strings.Repeat(" ", kit.MaxBody)
		if got := w.do(unlock); got.status != 200 {
			t.Errorf("%s: got %d %s", base, got.status, got.body)
		}
	}
}
