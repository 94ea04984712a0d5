package trust

import (
	"encoding/base64"
	"html"
	"strings"

	"github.com/google/uuid"
)

// profileForm is a configuration profile of Apple's with one root certificate
// (Apple, Device Management: TopLevel, CertificateRoot).
const profileForm = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>PayloadContent</key>
	<array>
		<dict>
			<key>PayloadCertificateFileName</key>
			<string>gatehouse-ca.cer</string>
			<key>PayloadContent</key>
			<data>{certificate}</data>
			<key>PayloadDisplayName</key>
			<string>{name}</string>
			<key>PayloadIdentifier</key>
			<string>gatehouse.{profile}.authority</string>
			<key>PayloadType</key>
			<string>com.apple.security.root</string>
			<key>PayloadUUID</key>
			<string>{payload}</string>
			<key>PayloadVersion</key>
			<integer>1</integer>
		</dict>
	</array>
	<key>PayloadDescription</key>
	<string>Lets this device reach the door gateway over HTTPS. Compare the fingerprint of its certificate with the one that the gateway shows.</string>
	<key>PayloadDisplayName</key>
	<string>{name}</string>
	<key>PayloadIdentifier</key>
	<string>gatehouse.{profile}</string>
	<key>PayloadOrganization</key>
	<string>Gatehouse</string>
	<key>PayloadType</key>
	<string>Configuration</string>
	<key>PayloadUUID</key>
	<string>{profile}</string>
	<key>PayloadVersion</key>
	<integer>1</integer>
</dict>
</plist>
`

// profile returns the configuration profile that has an iPhone or iPad trust the
// authority; nil without one. Its identifiers follow from the certificate, so that a
// second installation replaces the first.
func (g guide) profile() []byte {
	der := g.der()
	if der == nil {
		return nil
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, der)
	return []byte(strings.NewReplacer(
		"{certificate}", base64.StdEncoding.EncodeToString(der),
		"{name}", html.EscapeString(commonName(der)), // good for XML too
		"{profile}", id.String(), "{payload}", uuid.NewSHA1(id, der).String(),
	).Replace(profileForm))
}
