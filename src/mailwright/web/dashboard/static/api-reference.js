// The API reference: Swagger UI on the OpenAPI document of this server.

const scheme = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const chosen = document.documentElement.dataset.theme;
  const isDark = chosen ? chosen === "dark" : scheme.matches;
  document.documentElement.classList.toggle("dark-mode", isDark);
}

applyTheme();
scheme.addEventListener("change", applyTheme);

async function show() {
  const response = await fetch("/openapi.json");
  const spec = await response.json();
  // Requests go to the address of this page: the policy of the page allows no other.
  spec.servers = [{ url: location.origin }];
  SwaggerUIBundle({
    spec,
    domNode: document.getElementById("reference"),
    deepLinking: true,
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
  });
}

show();
