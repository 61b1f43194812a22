/* The importer of ETL traces; see sampler/importer.h. */
#ifndef SP_PLATFORM_WINDOWS_ETL_IMPORT_H
#define SP_PLATFORM_WINDOWS_ETL_IMPORT_H

#include "sampler/importer.h"

extern const struct sp_importer_ops sp_etl_importer;

/* etl_filter_file.c; the second one for a trace that is open already. */
struct sp_error *sp_etl_filter(const struct sp_import_options *options, const char *output,
                               struct sp_filter_result *ret);
struct sp_etl_sources;
struct sp_error *sp_etl_filter_source(const struct sp_import_options *options, struct sp_etl_sources *sources,
                                      const char *output, struct sp_filter_result *ret);

#endif
