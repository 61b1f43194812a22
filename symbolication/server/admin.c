/* /healthz, /readyz and /metrics (Prometheus' text format), on a listener of their own. */
#include "internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const route_names[ROUTE_COUNT] = { "buildid", "files", "api", "upload" };

static void say(struct sp_buffer *out, const char *format, ...) SP_PRINTF(2, 3);
static void say(struct sp_buffer *out, const char *format, ...)
{
	char line[256];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (length > 0)
		sp_error_destroy(sp_buffer_write(out, line, strnlen(line, sizeof(line))));
}

static void write_metrics(struct sp_server *server, struct sp_buffer *out)
{
	struct sp_store_counts counts = { 0 };
	sp_error_destroy(sp_store_count(server->options.store, &counts));
	say(out, "# TYPE sp_requests_total counter\n");
	for (unsigned route = 0; route < ROUTE_COUNT; route++) {
		for (unsigned class = 0; class < 6; class ++) {
			uint64_t count = atomic_load_explicit(&server->requests[route][class], memory_order_relaxed);
			if (count && class)
				say(out, "sp_requests_total{route=\"%s\",status=\"%uxx\"} %" PRIu64 "\n",
				    route_names[route], class, count);
			else if (count)
				say(out, "sp_requests_total{route=\"%s\",status=\"reset\"} %" PRIu64 "\n",
				    route_names[route], count);
		}
	}
	say(out, "# TYPE sp_upload_bytes_total counter\nsp_upload_bytes_total %" PRIu64 "\n",
	    atomic_load_explicit(&server->received, memory_order_relaxed));
	say(out, "# TYPE sp_upload_files_total counter\nsp_upload_files_total %" PRIu64 "\n",
	    atomic_load_explicit(&server->stored, memory_order_relaxed));
	say(out, "# TYPE sp_store_artifacts gauge\nsp_store_artifacts %" PRIu64 "\n", counts.artifacts);
	say(out, "# TYPE sp_store_files gauge\nsp_store_files %" PRIu64 "\n", counts.blobs);
	say(out, "# TYPE sp_store_bytes gauge\nsp_store_bytes %" PRIu64 "\n", counts.bytes);
}

void server_admin(void *context, const struct sp_http_request *request, struct sp_http_reply *reply)
{
	struct sp_server *server = context;
	if (!strcmp(request->path, "/healthz")) {
		server_text(reply, 200, "ok\n");
	} else if (!strcmp(request->path, "/readyz")) {
		struct sp_error *error = sp_store_is_ready(server->options.store);
		if (error)
			server_text(reply, 503, "%s\n", error->message);
		else
			server_text(reply, 200, "ok\n");
		sp_error_destroy(error);
	} else if (!strcmp(request->path, "/metrics")) {
		reply->content_type = "text/plain; version=0.0.4";
		write_metrics(server, &reply->body);
	} else {
		server_text(reply, 404, "Not found.\n");
	}
}
