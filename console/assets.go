package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/lockctl/lockctl/internal/termtext"
)

//go:embed assets/console.css assets/console.js assets/icon.svg
var assetFiles embed.FS

// assets are the files that pages refer to. Each is served under a name that has
// a hash of its content, so that browsers may keep it for ever.
type assets struct {
	version string            // changes when any of them does
	names   map[string]string // by plain name, the name with the hash
	files   map[string]asset  // by the name with the hash
}

type asset struct {
	mime string
	etag string
	data []byte
}

func loadAssets() (*assets, error) {
	types := map[string]string{
		"console.css": "text/css; charset=utf-8",
		"console.js":  "text/javascript; charset=utf-8",
		"icon.svg":    "image/svg+xml",
	}
	a := &assets{names: map[string]string{}, files: map[string]asset{}}
	all := sha256.New()
	for _, name := range []string{"console.css", "console.js", "icon.svg"} {
		data, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		all.Write(data)
		sum := sha256.Sum256(data)
		hash := hex.EncodeToString(sum[:6])
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(name, ext) + "." + hash + ext
		a.names[name] = hashed
		a.files[hashed] = asset{mime: types[name], etag: `"` + hash + `"`, data: data}
	}
	a.version = hex.EncodeToString(all.Sum(nil)[:6])
	return a, nil
}

func (c *Console) asset(ec echo.Context) error {
	file, ok := c.assets.files[ec.Param("name")]
	if !ok {
		return echo.NewHTTPError(http.StatusNotFound, fmt.Sprintf("There is no file “%s”.", clip(termtext.Escape(ec.Param("name")), 100)))
	}
	h := ec.Response().Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("ETag", file.etag)
	if ec.Request().Header.Get("If-None-Match") == file.etag {
		return ec.NoContent(http.StatusNotModified)
	}
	return ec.Blob(http.StatusOK, file.mime, file.data)
}
