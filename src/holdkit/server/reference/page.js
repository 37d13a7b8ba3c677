/* Shows the OpenAPI document of this server. Requests go to this server only, as the page's security policy demands; an API key that
   is entered is kept in this page and forgotten with it. */
SwaggerUIBundle({
  url: "./v1/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  validatorUrl: null,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
});
