package access

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"gatehouse/internal/site"
)

// deviceLen is the length of a device's secret in bytes.
const deviceLen = 32

// device is a client that has logged in to an account. It keeps a secret, of which the
// hash is stored, and shows it at its next login, which other clients then cannot delay or
// use up the failures of, those at the same address included. The secret permits nothing
// else, so a thief gains a few more wrong passwords, and it outlives new passwords and the
// end of all sessions.
type device struct {
	secret site.Secret
	sum    [32]byte
}

func newDevice() device {
	d, _ := readDevice(site.Secret(base64.RawURLEncoding.EncodeToString(random(deviceLen))))
	return d
}

// readDevice returns the device with that secret; ok is false for a text that is none.
func readDevice(shown site.Secret) (d device, ok bool) {
	if len(shown) != base64.RawURLEncoding.EncodedLen(deviceLen) {
		return device{}, false
	}
	return device{shown, sha256.Sum256([]byte(shown.Reveal()))}, true
}

// knows reports whether the account of that e-mail address was logged in to from the device
// within the life of a session, even if that session has ended since.
func (d *directory) knows(email site.Email, of device, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.emails[email]
	return a != nil && now.Before(a.devices[of.sum])
}

// Recognised is what is known of the client of a login before its password is compared.
type Recognised struct {
	Account site.AccountID // was logged in to from the device, which has failures left; empty: none
	Device  string         // names the device; empty: it is not known
	Fresh   bool           // the device is not known, and the address has not failed lately
}

// Recognise returns what is known of the client of a login to the account of that e-mail
// address. Quick.
func (s *Service) Recognise(email string, from Client) Recognised {
	a := s.newAttempt(email, from)
	if !a.known() {
		return Recognised{Fresh: a.fresh}
	}
	account, _ := s.find(email)
	return Recognised{Account: account.ID, Device: string(a.device.sum[:])}
}

// admitsDevice reports whether a device that logs in becomes known for its account. Of too many
// that takes one new device an hour, so that a client that has the password and shows no device
// has none of the others forgotten.
func (d *directory) admitsDevice(added site.LoginDevice, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[added.Account]
	if a == nil || len(a.devices) < site.MaxLoginDevices {
		return true
	}
	_, known := a.devices[added.Sum]
	return known || now.Sub(a.newDevice).Abs() >= time.Hour
}

// addDevice makes a device known for its account, unless its hash is zero. Of too many it
// forgets the one that logged in least recently, as the store does.
func (d *directory) addDevice(added site.LoginDevice, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[added.Account]
	if a == nil || added.Sum == [32]byte{} {
		return
	}
	if _, known := a.devices[added.Sum]; !known {
		a.newDevice = now
	}
	a.devices[added.Sum] = added.Until
	if len(a.devices) <= site.MaxLoginDevices {
		return
	}
	oldest := added.Sum
	for sum, until := range a.devices {
		if sum != added.Sum && (oldest == added.Sum || until.Before(a.devices[oldest])) {
			oldest = sum
		}
	}
	delete(a.devices, oldest)
}

// dropDevices forgets the devices that have not logged in for too long. The caller holds mu.
func (a *account) dropDevices(now time.Time) {
	for sum, until := range a.devices {
		if !now.Before(until) {
			delete(a.devices, sum)
		}
	}
}
