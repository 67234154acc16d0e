-- wrk's side of accepting: the same body again and again, each request with an Idempotency-Key of its own.
-- wrk … -- BODY_FILE API_KEY KEY_PREFIX
local headers, body, prefix, counter = {}, "", "", 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  body = file:read("*a")
  file:close()
  prefix = args[3]
  headers["Content-Type"] = "application/json"
  headers["Authorization"] = "Bearer " .. args[2]
end

function request()
  counter = counter + 1
  headers["Idempotency-Key"] = prefix .. "-" .. counter
  return wrk.format("POST", nil, headers, body)
end

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "errors": %d}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout
  ))
end
