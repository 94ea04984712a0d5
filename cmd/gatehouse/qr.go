package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"rsc.io/qr"

	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// quietZone is how many light modules surround a QR code (ISO/IEC 18004).
const quietZone = 4

// loginURL returns what a station's login is as a QR code, in the form that the web
// console shows: mqtts://station-7:PASSWORD@ADDRESS:8883.
func loginURL(ctx context.Context, gw *client.Client, login adminapi.MQTTLogin) (string, error) {
	status, err := gw.Status(ctx)
	if err != nil {
		return "", err
	}
	host := status.Name + ".local"
	if len(status.Addresses) > 0 {
		host = status.Addresses[0].String()
	}
	for _, name := range []string{"mqtts", "mqtt"} {
		if address := addressOf(status.Listeners, name, host); address != "" {
			u := url.URL{Scheme: name, User: url.UserPassword(login.Username, login.Password), Host: address}
			return u.String(), nil
		}
	}
	return "", errors.New("the gateway has no MQTT listener, so there is no address for a QR code")
}

// qr draws a text as a QR code of half blocks, light modules as blocks; with colours it is
// right whatever the terminal's own are.
func (l *lines) qr(text string, colours bool) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		l.err = errors.Join(l.err, fmt.Errorf("drawing the QR code: %w", err))
		return
	}
	begin, end := "", ""
	if colours {
		begin, end = "\x1b[38;5;231;48;5;16m", "\x1b[0m"
	}
	for y := -quietZone; y < code.Size+quietZone; y += 2 {
		var row strings.Builder
		for x := -quietZone; x < code.Size+quietZone; x++ {
			block := 0
			if !code.Black(x, y) { // outside is light
				block = 1
			}
			if !code.Black(x, y+1) {
				block += 2
			}
			row.WriteRune([]rune(" ▀▄█")[block])
		}
		l.printf("%s%s%s", begin, row.String(), end)
	}
}
