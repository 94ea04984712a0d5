package adminapi_test

import "testing"

func TestHandler_testify(t *testing.T) {
	h := open(t)
	h.want(h.do("POST", "/admin/v1/journal/witnesses", `{"witnesses":[{"source":"s","time":null,"seq":3,"hash":"ab"}]}`), 200,
		`{"witnesses":[{"source":"s","time":null,"seq":3,"hash":"ab","statement":"agrees"}]}`)
	h.want(h.do("POST", "/admin/v1/journal/witnesses", `{}`), 200, `{"witnesses":[]}`)
}
