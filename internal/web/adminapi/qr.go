package adminapi

import (
	"fmt"

	"rsc.io/qr"

	"gatehouse/internal/fault"
)

// maxQR bounds the text of a QR code, in bytes: one with more is hard to scan.
const maxQR = 512

// QRText is the body of POST /admin/v1/qr.
type QRText struct {
	Text string `json:"text"` // 1 to 512 bytes
}

// QR is the answer of POST /admin/v1/qr: a QR code without the quiet zone of four modules
// that has to surround it (ISO/IEC 18004).
type QR struct {
	Size int      `json:"size"` // modules on a side
	Rows []string `json:"rows"` // from above; of each module from the left "1" if it is dark, else "0"
}

// drawQR draws a text as a QR code, for clients that cannot. The text may be a secret:
// nothing keeps it.
func (a *API) drawQR(_ *request, in QRText) (any, error) {
	if len(in.Text) == 0 || len(in.Text) > maxQR {
		return nil, fault.New(fault.Invalid, fmt.Sprintf("A QR code takes a text of 1 to %d bytes", maxQR))
	}
	code, err := qr.Encode(in.Text, qr.M)
	if err != nil {
		return nil, err
	}
	drawn := QR{Size: code.Size}
	for y := range code.Size {
		row := make([]byte, code.Size)
		for x := range row {
			row[x] = '0'
			if code.Black(x, y) {
				row[x] = '1'
			}
		}
		drawn.Rows = append(drawn.Rows, string(row))
	}
	return drawn, nil
}
