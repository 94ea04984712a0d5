package adminapi

import _ "embed"

// openAPI is the OpenAPI 3.1 description of /admin/v1. Everyone may read it: it
// is the same for every gateway.
//
//go:embed openapi.json
var openAPI []byte
