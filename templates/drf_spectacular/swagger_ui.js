"use strict";

const random = () => Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/* An operationID identifies one request, so each page load suggests new ones. */
const fresh = (operationID) => operationID.replace(/-1$/, `-${random()}`);

const refreshBody = (content) => {
  for (const { example } of Object.values(content || {})) {
    if (example?.operationID) example.operationID = fresh(example.operationID);
  }
};

const refresh = (text) => {
  const document = JSON.parse(text);
  for (const methods of Object.values(document.paths)) {
    for (const operation of Object.values(methods)) {
      refreshBody(operation.requestBody?.content);
      for (const parameter of operation.parameters || []) {
        if (parameter.in === "query" && parameter.name === "operationID") {
          parameter.example = fresh(parameter.schema.examples[0]);
        }
      }
    }
  }
  return JSON.stringify(document);
};

const schemaURL = new URL("{{ schema_url|escapejs }}", document.baseURI).href;

SwaggerUIBundle({
  url: schemaURL,
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  responseInterceptor: (response) => {
    if (response.ok && response.url === schemaURL) response.text = refresh(response.text);
    return response;
  },
  ...{{ settings|safe }},
});
