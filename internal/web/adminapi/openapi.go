package adminapi

import (
	_ "embed"
	"net/http"

	"gatehouse/internal/web/kit"
)

// openAPI is the OpenAPI 3.1 description of /admin/v1.
//
//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers with the description, to everyone: it tells nothing of this gateway.
func serveOpenAPI(x *kit.Exchange) error { return x.JSON(http.StatusOK, openAPI) }
