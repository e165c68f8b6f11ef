"""Which settings of Spark SQL are ours in every session that we use, whatever the user's session says.

Made of all `spark.sql.*` entries of the Spark in requirements.lock.  Those that can be set in a session are reviewed by
kind: either a setting can change an answer (what a text or a name means, a type, a rounding, what raises, which rows of
a file are read, whether a rule of the optimizer applies), then it is pinned; or it is about speed, memory, logs, other
languages, streaming queries and stored tables, which no query of ours has, then the user's holds.  A pinned setting has
Spark's own default, so that a view means the same when a later Spark has another; what differs is said beside `_OURS`.
A setting in neither list is one of another Spark: it is unset, and a test asks for a review.
"""

from __future__ import annotations

PREFIX = "spark.sql."

_DEFAULTS = """
allowNamedFunctionArguments=true alwaysInlineCommonExpr=false
analyzer.allowSubqueryExpressionsInLambdasOrHigherOrderFunctions=false
analyzer.canonicalization.multiCommutativeOpMemoryOptThreshold=3
analyzer.dontDeduplicateExpressionIfExprIdInOutput=true analyzer.expandTagPassthroughDuplicates=true
analyzer.failAmbiguousSelfJoin=true analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled=true
analyzer.maxIterations=100 analyzer.preferColumnOverLcaInArrayIndex=true
analyzer.scalarSubqueryAllowGroupByColumnEqualToConstant=true analyzer.singlePassResolver.dualRunSampleRate=0.1
analyzer.singlePassResolver.dualRunWithLegacy=false analyzer.singlePassResolver.enableAsOfJoinResolution=true
analyzer.singlePassResolver.enabled=false analyzer.singlePassResolver.enabledTentatively=false
analyzer.singlePassResolver.exposeResolverGuardFailure=false
analyzer.singlePassResolver.preventUsingAliasesFromNonDirectChildren=false
analyzer.singlePassResolver.relationBridging.enabled=true
analyzer.singlePassResolver.returnSinglePassResultInDualRun=false
analyzer.singlePassResolver.runExtendedResolutionChecks=true
analyzer.singlePassResolver.runHeavyExtendedResolutionChecks=true
analyzer.singlePassResolver.throwFromResolverGuard=false analyzer.singlePassResolver.validationEnabled=true
analyzer.sqlFunctionResolution.applyConfOverrides=true analyzer.strictDataFrameColumnResolution=true
analyzer.subqueryAliasAlwaysPropagateMetadataColumns=true
analyzer.unionIsResolvedWhenDuplicatesPerChildResolved=true analyzer.uniqueNecessaryMetadataColumns=true
ansi.doubleQuotedIdentifiers=false ansi.enabled=true ansi.enforceReservedKeywords=false
ansi.relationPrecedence=false assumeAnsiFalseIfNotPersisted.enabled=true avro.datetimeRebaseModeInRead=CORRECTED
avro.datetimeRebaseModeInWrite=CORRECTED avro.filterPushdown.enabled=true binByRelationOperator.enabled=false
broadcastTimeout=-1 caseSensitive=false charAsVarchar=false chunkBase64String.enabled=true
collation.allowInMapKeys=false collation.objectLevel.enabled=true collation.schemaLevel.enabled=false
columnNameOfCorruptRecord=_corrupt_record constraintPropagation.enabled=true crossJoin.enabled=true
csv.filterPushdown.enabled=true csv.parser.columnPruning.enabled=true
cteRecursionAnchorRowsLimitToConvertToLocalRelation=100 cteRecursionLevelLimit=100 cteRecursionRowLimit=1000000
cteRelationDefMaxRows.enabled=true dataFrameQueryContext.enabled=true dataSource.alwaysCreateV2Predicate=true
dataSource.skipAssertOnPredicatePushdown=true datetime.java8API.enabled=false
decimalOperations.allowPrecisionLoss=true defaultCatalog=spark_catalog
defaultColumn.allowedProviders=csv,json,orc,parquet defaultColumn.enabled=true
defaultColumn.useNullsForMissingDefaultValues=true dropDuplicates.deterministicKeyOrder.enabled=true
dropTableOnView.enabled=true enforceTypeCoercionBeforeUnionDeduplication.enabled=true error.messageFormat=PRETTY
execution.arrow.enabled=true execution.arrow.fallback.enabled=true execution.arrow.maxBytesPerBatch=64MB
execution.arrow.maxBytesPerOutputBatch=-1b execution.arrow.maxRecordsPerBatch=65536
execution.arrow.maxRecordsPerOutputBatch=-1 execution.arrow.pyspark.selfDestruct.enabled=false
execution.arrow.pyspark.validateSchema.enabled=false execution.arrow.pythonUDF.columnarInput.enabled=true
execution.arrow.sparkr.enabled=false execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch=10000
execution.arrow.useLargeVarTypes=false execution.bypassPartialAggregation=false
execution.combineAdjacentAggregation=true execution.pandas.convertToArrowArraySafely=true
execution.pandas.inferPandasDictAsMap=false execution.pandas.structHandlingMode=legacy
execution.pushDownLocalSort=true execution.pushDownLocalSort.throughCardinalityReducer=false
execution.pythonUDF.arrow.enabled=true execution.pythonUDF.arrow.legacy.fallbackOnUDT=false
execution.pythonUDF.mapInBatch.legacy.acceptAnyIterable.enabled=true
execution.pythonUDF.pandas.intToDecimalCoercionEnabled=false
execution.pythonUDF.pandas.preferIntExtensionDtype=false execution.pythonUDTF.arrow.enabled=true
execution.removeRedundantProjects=true execution.removeRedundantSorts=true execution.replaceHashWithSortAgg=true
execution.reuseSubquery=true execution.sortBeforeRepartition=true execution.udf.unified.execution.enabled=false
execution.useHashAggregateExec=true execution.useObjectHashAggregateExec=true execution.usePartitionEvaluator=false
experimental.optimizer.pyTranspilers=catalyst experimental.optimizer.transpilePyUDFs=false
fileSource.insert.enforceNotNull=false files.archive.reader.enabled=false files.ignoreCorruptFiles=false
files.ignoreInvalidPartitionPaths=false files.ignoreMissingFiles=false files.ignoredPathSegmentRegex=^[._]
function.concatBinaryAsString=false function.eltOutputAsString=false function.protobufExtensions.enabled=false
functionResolution.sessionOrder=second generatedColumn.allowNullableIngest.enabled=true geospatial.enabled=true
groupByAliases=true groupByOrdinal=true icu.caseMappings.enabled=true insertIntoReplaceOn.enabled=true
insertIntoReplaceOnByName.enabled=true insertIntoReplaceUsing.enabled=true insertIntoReplaceUsingByName.enabled=true
insertIntoReplaceWhereColumnList.enabled=true insertNestedTypeCoercion.enabled=false join.asofJoin.enabled=false
join.sortMergeAsOfJoin.enabled=false join.splitStreamedSideJoinCondition=false json.enableExactStringParsing=true
json.enablePartialResults=true json.filterPushdown.enabled=true json.useUnsafeRow=false
jsonGenerator.ignoreNullFields=true jsonGenerator.writeNullIfWithDefaultValue=true
lateralColumnAlias.enableImplicitResolution=true lazySetOperatorOutput.enabled=true
legacy.addSingleFileInAddFile=false legacy.allowAutoGeneratedAliasForView=false legacy.allowEmptySchemaWrite=false
legacy.allowHashOnMapType=false legacy.allowNegativeScaleOfDecimal=false legacy.allowNonEmptyLocationInCTAS=false
legacy.allowNullComparisonResultInArraySort=false legacy.allowParameterlessCount=false
legacy.allowSessionVariableInPersistedView=false legacy.allowStarWithSingleTableIdentifierInCount=false
legacy.allowTempViewCreationWithMultipleNameparts=false legacy.allowUdfParameterToShadowParameterlessFunction=false
legacy.allowUntypedScalaUDF=false legacy.allowZeroIndexInFormatString=false
legacy.avro.allowIncompatibleSchema=false legacy.bangEqualsNot=false legacy.blockCreateTempTableUsingProvider=false
legacy.bucketedTableScan.outputOrdering=false legacy.castComplexTypesToString.enabled=false
legacy.charVarcharAsString=false legacy.codingErrorAction=false legacy.collationAwareHashFunctions=false
legacy.consecutiveStringLiterals.enabled=false legacy.createEmptyCollectionUsingStringType=false
legacy.createHiveTableByDefault=false legacy.cteDuplicateAttributeNames=false legacy.ctePrecedencePolicy=CORRECTED
legacy.dataFrameWriterV2IgnorePathOption=false legacy.dataset.nameNonStructGroupingKeyAsValue=false
legacy.db2.booleanMapping.enabled=false legacy.db2.numericMapping.enabled=false
legacy.decimal.retainFractionDigitsOnTruncate=false legacy.disableMapKeyNormalization=false
legacy.doLooseUpcast=false legacy.duplicateBetweenInput=false legacy.earlyEvalCurrentTime=false
legacy.emptyCurrentDBInCli=false legacy.execution.pandas.groupedMap.assignColumnsByName=true
legacy.execution.pythonUDF.pandas.conversion.enabled=false
legacy.execution.pythonUDTF.pandas.conversion.enabled=false legacy.exponentLiteralAsDecimal.enabled=false
legacy.extraOptionsBehavior.enabled=false legacy.followThreeValuedLogicInArrayExists=true
legacy.fromDayTimeString.enabled=false legacy.groupingIdWithAppendedUserGroupBy=false
legacy.histogramNumericPropagateInputType=true legacy.hive.thriftServer.useZeroBasedColumnOrdinalPosition=false
legacy.identifierClause=false legacy.inSubqueryNullability=false legacy.inlineCTEInCommands=false
legacy.integerGroupingId=false legacy.interval.enabled=false legacy.javaCharsets=false
legacy.jdbc.timeMapping.enabled=false legacy.json.allowEmptyString.enabled=false
legacy.keepCommandOutputSchema=false legacy.keepPartitionSpecAsStringLiteral=false
legacy.literal.pickMinimumPrecision=true legacy.lpadRpadAlwaysReturnString=false
legacy.mssqlserver.datetimeoffsetMapping.enabled=false legacy.mssqlserver.numericMapping.enabled=false
legacy.mysql.bitArrayMapping.enabled=false legacy.mysql.timestampNTZMapping.enabled=false
legacy.negativeIndexInArrayInsert=false legacy.noCharPaddingInPredicate=false legacy.notReserveProperties=false
legacy.nullValueWrittenAsQuotedEmptyStringCsv=false legacy.observeMetricsAggregateAllAttempts=false
legacy.oracle.timestampMapping.enabled=false legacy.parameterSubstitution.constantsOnly=false
legacy.parquet.nanosAsLong=false legacy.parquet.returnNullStructIfAllFieldsMissing=false
legacy.parseNullPartitionSpecAsStringLiteral=false legacy.parseQueryWithoutEof=false
legacy.parser.havingWithoutGroupByAsWhere=false legacy.pathOptionBehavior.enabled=false
legacy.percentileDiscCalculation=false legacy.persistentCatalogFirst=false
legacy.postgres.datetimeMapping.enabled=false legacy.raiseErrorWithoutErrorClass=false
legacy.readFileSourceTableCacheIgnoreOptions=false legacy.replaceDatabricksSparkAvro.enabled=true
legacy.respectNullabilityInTextDatasetConversion=false
legacy.scalarSubqueryAllowGroupByNonEqualityCorrelatedPredicate=false legacy.scalarSubqueryCountBugBehavior=false
legacy.setCommandRejectsSparkCoreConfs=true legacy.setopsPrecedence.enabled=false legacy.sizeOfNull=true
legacy.skipTypeValidationOnAlterPartition=false legacy.statisticalAggregate=false
legacy.storeAnalyzedPlanForView=false legacy.timeParserPolicy=CORRECTED legacy.truncateForEmptyRegexSplit=false
legacy.typeCoercion.datetimeToString.enabled=false legacy.useCurrentConfigsForView=false
legacy.useLegacyXMLParser=false legacy.useV1Command=false legacy.v1IdentifierNoCatalog=false
legacy.viewSchemaBindingMode=true legacy.viewSchemaCompensation=true lightweightPlanChangeValidation=true
listagg.allowDistinctCastWithOrder.enabled=true mapKeyDedupPolicy=EXCEPTION mapZipWithUsesJavaCollections=true
maxMetadataStringLength=100 mergeNestedTypeCoercion.enabled=false optimizeNullAwareAntiJoin=true
optimizeNullAwareAntiJoin.broadcastThreshold=-1b optimizer.avoidCollapseUDFWithExpensiveExpr=true
optimizer.avoidDoubleFilterEval=true optimizer.canChangeCachedPlanOutputPartitioning=false
optimizer.collapseProjectAlwaysInline=false optimizer.datasourceV2ExprFolding=true
optimizer.datasourceV2JoinPushdown=false
optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled=false
optimizer.decorrelateInnerQuery.enabled=true optimizer.decorrelateJoinPredicate.enabled=true
optimizer.decorrelateLimit.enabled=true optimizer.decorrelateLimitOffsetLegacyIncorrectOrderHandling.enabled=false
optimizer.decorrelateOffset.enabled=true optimizer.decorrelatePredicateSubqueriesInJoinPredicate.enabled=true
optimizer.decorrelateSetOps.enabled=true optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled=false
optimizer.decorrelateSubqueryPreventConstantHoldingForCountBug.enabled=true
optimizer.decorrelateUnionOrSetOpUnderLimit.enabled=true optimizer.disableHints=false
optimizer.enableCsvExpressionOptimization=true optimizer.enableJsonExpressionOptimization=true
optimizer.excludeSubqueryRefsFromRemoveRedundantAliases.enabled=true optimizer.expression.nestedPruning.enabled=true
optimizer.expressionProjectionCandidateLimit=100 optimizer.getJsonObjectSharedParsing.enabled=false
optimizer.inSetConversionThreshold=10 optimizer.inSetSwitchThreshold=400
optimizer.insertMapSortInDistinctAggregates.enabled=true optimizer.mapLookupHashThreshold=1000
optimizer.maxIterations=100 optimizer.mergeSubplans.filterPropagation.dsv2SymmetricFilterPropagation.enabled=false
optimizer.mergeSubplans.filterPropagation.enabled=true
optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled=false
optimizer.mergeSubplans.filterPropagation.throughJoin.enabled=false optimizer.metadataOnly=false
optimizer.nestedPredicatePushdown.supportedFileSources=parquet,orc optimizer.nestedSchemaPruning.enabled=true
optimizer.optimizeExpandRatio=-1 optimizer.optimizeOneRowRelationSubquery=true
optimizer.optimizeOneRowRelationSubquery.alwaysInline=true
optimizer.optimizeUncorrelatedInSubqueriesInJoinCondition.enabled=true optimizer.plannedWrite.enabled=true
optimizer.preserveAliasMetadataWhenCollapsingProjects=true optimizer.propagateDistinctKeys.enabled=true
optimizer.pruneFiltersCanPruneStreamingSubplan=false optimizer.pullHintsIntoSubqueries=true
optimizer.pullOutNestedDataOuterRefExpressions.enabled=true optimizer.pushDownJoinThroughUnion.enabled=false
optimizer.replaceExceptWithFilter=true optimizer.scalarSubqueryUseSingleJoin=true
optimizer.serializer.nestedSchemaPruning.enabled=true optimizer.windowGroupLimitThreshold=1000
optimizer.wrapExistsInAggregateFunction=true orc.aggregatePushdown=false orc.enableNestedColumnVectorizedReader=true
orc.enableVectorizedReader=true orc.filterPushdown=true orc.impl=native orc.mergeSchema=false orderByOrdinal=true
orderingAwareLimitOffset=true parquet.aggregatePushdown=false parquet.binaryAsString=false
parquet.datetimeRebaseModeInRead=CORRECTED parquet.datetimeRebaseModeInWrite=CORRECTED
parquet.enableNestedColumnVectorizedReader=true parquet.enableNullTypeVectorizedReader=true
parquet.enableVectorizedReader=true parquet.fieldId.read.enabled=false parquet.fieldId.read.ignoreMissing=false
parquet.fieldId.write.enabled=true parquet.filterPushdown=true parquet.filterPushdown.date=true
parquet.filterPushdown.decimal=true parquet.filterPushdown.string.startsWith=true
parquet.filterPushdown.timestamp=true parquet.ignoreVariantAnnotation=false parquet.inferTimestampNTZ.enabled=true
parquet.int96AsTimestamp=true parquet.int96RebaseModeInRead=CORRECTED parquet.int96RebaseModeInWrite=CORRECTED
parquet.int96TimestampConversion=false parquet.mergeSchema=false parquet.outputTimestampType=INT96
parquet.pushdown.inFilterThreshold=10 parquet.reader.respectUnknownTypeAnnotation.enabled=false
parquet.recordLevelFilter.enabled=false parquet.respectSummaryFiles=false
parquet.variant.annotateLogicalType.enabled=true parquet.writeLegacyFormat=false
parser.eagerEvalOfUnresolvedInlineTable=true parser.escapedStringLiterals=false parser.quotedRegexColumnNames=false
parser.singleCharacterPipeOperator.enabled=true path.enabled=false pivotMaxValues=10000
preserveCharVarcharTypeInfo=false prioritizeOrdinalResolutionInSort.enabled=true readSideCharPadding=true
requireAllClusterKeysForCoPartition=true requireAllClusterKeysForDistribution=false retainGroupColumns=true
runCollationTypeCastsBeforeAliasAssignment.enabled=true runSQLOnFiles=false scripting.continueHandlerEnabled=false
scripting.cursorEnabled=false scripting.enabled=true selfJoinAutoResolveAmbiguity=true
sources.binaryFile.maxLength=2147483647 sources.default=parquet sources.fileCompressionFactor=1.0
sources.partitionColumnTypeInference.enabled=true sources.partitionOverwriteMode=STATIC
sources.structPredicateDecompose.enabled=true sources.structPredicateDecompose.maxFields=100
sources.useListFilesFileSystemList=s3a sources.useV1SourceList=avro,csv,json,kafka,orc,parquet,text
sources.validatePartitionColumns=true stableDerivedColumnAlias.enabled=false stackTracesInDataFrameContext=1
storeAssignmentPolicy=ANSI subexpressionElimination.enabled=true subexpressionElimination.filterExec.enabled=true
subexpressionElimination.skipForShortcutExpr=false timeTravel.atSyntax.enabled=true
timeTravelTimestampKey=timestampAsOf timeTravelVersionKey=versionAsOf timeType.enabled=false
timestampNanosTypes.enabled=false timestampType=TIMESTAMP_LTZ truncateTable.ignorePermissionAcl.enabled=false
tvf.allowMultipleTableArguments.enabled=false udt.allowCreatingUDTFromString=true unionOutputPartitioning=true
useCommonExprIdForAlias=true variable.substitute=false variant.allowDuplicateKeys=false
variant.allowReadingShredded=true variant.inferShreddingSchema=true variant.pushVariantIntoScan=true
variant.pushVariantIntoScan.deferCastError=false variant.pushVariantIntoScan.pullOutExtractions=true
variant.shredding.maxSchemaDepth=50 variant.shredding.maxSchemaWidth=300 variant.validateUnicodeInJsonParsing=true
variant.writeShredding.enabled=true view.maxNestedViewDepth=100 window.segmentTree.blockSize=65536
window.segmentTree.enabled=false window.segmentTree.fanout=16 window.segmentTree.minPartitionRows=64
xml.schemaInference.incrementalTypeCasting.enabled=true xml.variant.respectInferSchema=true
"""

_OURS = {
    "ansi.enabled": "true",  # else an environment variable says what the default is
    "broadcastTimeout": "-1",  # a busy machine fails no query
    "execution.arrow.maxRecordsPerBatch": "65536",
    "runSQLOnFiles": "false",  # text.`/a/path` is no table
    "timestampType": "TIMESTAMP_LTZ",
    "variable.substitute": "false",  # ${...} is text
}

PINNED = {PREFIX + name: value for name, _, value in (each.partition("=") for each in _DEFAULTS.split())}
PINNED |= {PREFIX + name: value for name, value in _OURS.items()}
"""Name to value, without the time zone, which is the database's."""

_NO_ANSWERS = """
adaptive. addPartitionInBatch. artifact. autoBroadcastJoinThreshold avro.compression avro.deflate avro.xz
avro.zstandard bucketing. cartesianProductExec. catalog. cbo. classic. cli. codegen. columnVector. connect.
csv.parser.inputBufferSize dataframeCache. debug. defaultCacheStorageLevel defaultSizeInBytes exchange.
execution.arrow.c execution.arrow.local execution.broadcastHashJoin. execution.datasources. execution.fastFail
execution.interruptOnCancel execution.pyspark. execution.python. execution.rangeExchange. execution.topKSort
expressionTreeChangeLog. extendedExplainProviders files.maxPartition files.maxRecords files.minPartition
files.openCost files.supportSecond hive. inMemory join.preferSortMergeJoin leafNodeDefaultParallelism limit. maven.
maxBroadcast maxConcurrent maxPlanStringLength maxSinglePartitionBytes nameResolutionLog.level objectHashAggregate.
operatorPipe optimizer.dynamicPartitionPruning optimizer.runtime optimizer.singleTask orc.columnar orc.compression
parquet.columnar parquet.compression parquet.output.committer parser.manage parser.parserDfa pipelines.
planChangeLog. planChangeValidation planner. protobuf. pyspark. python. redaction. repl. scriptTransformation.
session.localRelation sessionWindow. shuffle sort. sortMergeJoinExec. sources.bucketing. sources.commitProtocol
sources.ignoreData sources.outputCommitter sources.parallel sources.v2.bucketing. statistics. streaming.
subexpressionElimination.cache thrift transposeMaxValues ui. windowExec.
"""

HARMLESS = tuple(PREFIX + name for name in _NO_ANSWERS.split())
"""How the names begin of settings that change no answer."""

UNSET = tuple(PREFIX + name for name in (
    "binaryOutputStyle", "defaultPath", "execution.arrow.pyspark.enabled", "execution.arrow.pyspark.fallback.enabled",
    "execution.pandas.udf.buffer.size", "execution.pythonUDF.arrow.concurrency.level",
    "legacy.csv.enableDateTimeParsingFallback", "legacy.json.enableDateTimeParsingFallback",
    "legacy.nullInEmptyListBehavior", "optimizer.excludedRules", "parquet.filterPushdown.stringPredicate",
    "session.timeZone", "udt.allowedDynamicUDTClasses", "variant.forceShreddingSchemaForTest",
))  # fmt: skip
"""Settings that can change an answer and have no value by default, or that of another one."""
