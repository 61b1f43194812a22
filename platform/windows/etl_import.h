/* The importer of ETL traces; see sampler/importer.h. */
#ifndef SP_PLATFORM_WINDOWS_ETL_IMPORT_H
#define SP_PLATFORM_WINDOWS_ETL_IMPORT_H

#include "sampler/importer.h"

extern const struct sp_importer_ops sp_etl_importer;

#endif
