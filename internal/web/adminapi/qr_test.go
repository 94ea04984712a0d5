package adminapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gatehouse/internal/web/adminapi"
)

// A QR code has a finder in three corners and none in the fourth (ISO/IEC 18004, 6.3.3),
// and is as large as its text needs.
func TestHandler_qr(t *testing.T) {
	h := open(t)
	draw := func(text string) adminapi.QR {
		t.Helper()
		body, err := json.Marshal(adminapi.QRText{Text: text})
		h.must(err)
		got := h.do("POST", "/admin/v1/qr", string(body))
		var code adminapi.QR
		if err := json.Unmarshal([]byte(got.body), &code); err != nil || got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return code
	}
	finder := []string{"1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111"}
	has := func(code adminapi.QR, x, y int) bool {
		for i, row := range finder {
			if code.Rows[y+i][x:x+7] != row {
				return false
			}
		}
		return true
	}
	for _, length := range []int{1, 80, 512} {
		code := draw(strings.Repeat("ä", length/2) + strings.Repeat("x", length%2))
		last := code.Size - 7
		if code.Size != len(code.Rows) || (code.Size-17)%4 != 0 || len(code.Rows[last]) != code.Size {
			t.Fatalf("of %d bytes: size %d, %d rows", length, code.Size, len(code.Rows))
		}
		if !has(code, 0, 0) || !has(code, last, 0) || !has(code, 0, last) || has(code, last, last) {
			t.Errorf("of %d bytes: the finders are not in their corners:\n%s", length, strings.Join(code.Rows, "\n"))
		}
	}
	if a, b := draw("mqtts://a"), draw("mqtts://b"); fmt.Sprint(a) == fmt.Sprint(b) {
		t.Error("two texts have one code")
	}
	const bounds = `{"message":"A QR code takes a text of 1 to 512 bytes"}`
	h.want(h.do("POST", "/admin/v1/qr", `{"text":"`+strings.Repeat("x", 513)+`"}`), 400, bounds)
	h.want(h.do("POST", "/admin/v1/qr", `{}`), 400, bounds)
}
