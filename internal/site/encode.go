package site

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the record as one flat object, byte for byte as
// [encoding/json] writes it, but without reflection: two records are written for
// each unlock.
func (r *Record) AppendJSON(b []byte) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"time":`...)
	if r.Time.IsZero() {
		b = append(b, "null"...)
	} else {
		b = r.Time.UTC().AppendFormat(b, `"`+TimeLayout+`"`)
	}
	b = append(b, `,"clockTrusted":`...)
	b = strconv.AppendBool(b, r.ClockTrusted)
	b = append(b, `,"boot":`...)
	b = appendString(b, string(r.Boot))
	b = append(b, `,"kind":`...)
	b = appendString(b, string(r.Kind))
	b = r.Facts.appendFields(b)
	return append(b, '}')
}

// appendFields appends each fact that is stated, after a comma.
func (f *Facts) appendFields(b []byte) []byte {
	b = appendField(b, "origin", string(f.Origin))
	b = appendField(b, "account", string(f.Account))
	b = appendField(b, "email", string(f.Email))
	b = appendField(b, "session", string(f.Session))
	b = appendField(b, "by", f.By)
	if f.Station != 0 {
		b = append(b, `,"station":`...)
		b = strconv.AppendInt(b, int64(f.Station), 10)
	}
	b = appendField(b, "lock", f.Lock)
	b = appendField(b, "commandId", string(f.Command))
	b = appendField(b, "outcome", string(f.Outcome))
	b = appendField(b, "answer", f.Answer)
	b = appendField(b, "idempotencyKey", f.IdempotencyKey)
	b = appendField(b, "status", string(f.Status))
	if f.BatteryVoltage != nil {
		b = append(b, `,"batteryVoltage":`...)
		b = appendMarshalled(b, *f.BatteryVoltage)
	}
	b = appendField(b, "remote", f.Remote)
	b = appendField(b, "detail", f.Detail)
	if f.Count != 0 {
		b = append(b, `,"count":`...)
		b = strconv.AppendInt(b, int64(f.Count), 10)
	}
	b = appendField(b, "jti", f.JTI)
	b = appendField(b, "kid", f.KeyID)
	b = appendNumber(b, "from", f.From)
	b = appendNumber(b, "to", f.To)
	return appendField(b, "version", f.Version)
}

func appendNumber(b []byte, name string, value uint64) []byte {
	if value == 0 {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendUint(b, value, 10)
}

func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendString(b, value)
}

// appendString appends plain text as it is, and leaves to encoding/json what has to
// be escaped.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&', c == 0x7f:
			return appendMarshalled(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendMarshalled is for strings and finite numbers, which always marshal.
func appendMarshalled(b []byte, value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, data...)
}
